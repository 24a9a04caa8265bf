"""One update of latent functions and unknown parameters together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.moves import EllipticalSlice, Info, Move, State
from ellipslice.moves.arithmetic import fold, pick, put
from ellipslice.moves.base import Target
from ellipslice.noise import Noise, NoiseSpec, Uniforms, UpdateNoise
from ellipslice.parameters.conditioned_noise import Given
from ellipslice.parameters.factor import log_determinant, multiply, solve
from ellipslice.parameters.joint import Joint, JointPrior, Point
from ellipslice.parameters.pivots import Pivots
from ellipslice.parameters.sites import Sites, StandIns
from ellipslice.priors import Prior

WAYS = ("white", "sites", "surrogate", "fixed")
"""What stays as it is while the parameters move."""

ELLIPSE = EllipticalSlice()


class Around(NamedTuple):
    """A Gaussian near where some parameters are, to move them on its ellipses: any will do, a good one does better."""

    centre: Any
    factor: Any
    """Lower triangular: the covariance is factor @ factor.T."""

    def log_density(self, away: Any) -> Any:
        """Of u = centre + away, up to a constant."""
        xp = np if isinstance(away, np.ndarray) else jnp
        white = xp.linalg.solve(self.factor, away)
        return -0.5 * white @ white

    def __getitem__(self, number: Any) -> Around:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One of several, along a leading axis."""
        return Around(self.centre[number], self.factor[number])


class Tuned(NamedTuple):
    """What is chosen before a run. No choice changes what is sampled."""

    together: Around
    """For all parameters: several, along a leading axis."""
    likelihood: Around
    """For those that only the likelihood has: as many."""
    noise: np.ndarray
    """Variances of the surrogate data, (latents, n)."""
    sites: StandIns | None
    turns: tuple[tuple[int, int], ...]
    """What updates do in turn: the number of the way, in `Sweep.ways`, and of the Gaussian, 0 or 1. The number 2 + i is
    for parameter i of u by itself, around the first, whose factor must then be diagonal."""
    rates: tuple[float, ...] = ()
    """Of each way: effective draws for the same work, beside the best, in pilot runs; if there were any."""
    pivots: Pivots | None = None
    """For factors with few columns."""


class _Prepared(NamedTuple):
    inputs: Any
    pivots: Pivots | None
    fixed: Any
    """Factors and means, if no parameter enters them."""
    together: Around
    likelihood: Around
    noise: Any
    sites: StandIns | None
    free: Any = None
    """Which parameters an update moves."""


class ParameterDraws(NamedTuple):
    """What is drawn for one update of parameters and latent functions: standard normals, and what the update does."""

    to_all: Any
    """For all parameters, shape (parameters,)."""
    to_likelihood: Any
    """For the parameters that only the likelihood has."""
    surrogate: Any
    """For surrogate data, shape (latents, n)."""
    latent: Any
    """For the updates of the latent functions, shape (updates of these, latents, n)."""
    way: Any
    """The number of the way, in `Sweep.ways`."""
    around: Any
    """The number of the Gaussian, 0 or 1; 2 + i moves parameter i by itself, around the first."""


@dataclass(frozen=True)
class Sweep(Move):
    """Move the parameters, then the latent functions, each on ellipses.

    The parameters u have a density p(u). Any Gaussian q(u) turns it into q(u) times p(u) / q(u), so they too move by
    elliptical slice sampling, with nothing to tune; each evaluation takes a factorisation of the covariance. What stays
    as it is while they move makes different updates:

    - "white": the white noise z. f = m(u) + L(u) z follows. Best where the data say little.
    - "fixed": f itself. The data do not matter, and N(f; m(u), Sigma(u)) does. Best where f is known.
    - "surrogate": between the two. Surrogate data g = L z + noise are drawn, and the white noise of f given g stays
      (Murray & Adams 2010). For data that say something.
    - "sites": Gaussians take the place of the data, and the white noise of f given them stays. If they fit, parameters
      and noise are nearly independent, so both move freely; the exact ratio of likelihood and Gaussians is what is
      sampled. The latent functions then move on ellipses of that Gaussian, too. For log-likelihoods that are sums over
      the values of f.

    All parameters move together, and those that only the likelihood has once more with f fixed, which needs no
    factorisation. The statistic `factorisations` is the number of values of the kernel's parameters that were tried,
    each by a factorisation, and `angle` is the same.

    Parameters
    ----------
    joint : Joint
    of_kernel, of_likelihood : tuple of int
        Which numbers of u enter kernels and means, and which only the likelihood.
    ways : tuple of str
        Some of `WAYS`.
    latent : int
        Updates of the latent functions for one of the parameters. Their draws are one product.
    tuned : Tuned

    References
    ----------
    Murray & Adams (2010), Slice sampling covariance hyperparameters of latent Gaussian models, NIPS 23.
    """

    statistics: ClassVar[Mapping[str, type]] = MappingProxyType({"factorisations": int})

    joint: Joint
    of_kernel: tuple[int, ...]
    of_likelihood: tuple[int, ...]
    ways: tuple[str, ...]
    latent: int = 5
    tuned: Tuned = field(compare=False, repr=False, kw_only=True)

    @property
    def used(self) -> list[str]:
        """The ways that updates take, the most frequent first."""
        return list(dict.fromkeys(self.ways[way] for way, _ in self.tuned.turns)) if self.of_kernel else []

    def stored(self) -> list[Any]:
        """All of it but the joint prior, for a store: `restored` makes the move again."""
        together, likelihood, noise, sites, turns, rates, pivots = self.tuned
        there = [self.of_kernel, self.of_likelihood, self.ways, self.latent, turns, rates]
        narrow = (pivots.widths, pivots.order) if pivots else ((), np.zeros((0, 0), int))
        return [*there, *narrow, *together, *likelihood, noise, *jax.tree.leaves(sites)]

    @classmethod
    def restored(cls, joint: Joint, inputs: np.ndarray, parts: list[Any]) -> Sweep:
        """The move again, from what `stored` gave; refused if it does not fit the model."""
        shapes = [np.shape(part) for part in parts[8:]]
        n, d, k = (len(joint.latents), len(inputs)), joint.parameters.size, len(parts[1])
        anchors = shapes[5][:1] if len(shapes) > 5 else ()
        expected = [(2, d), (2, d, d), (2, k), (2, k, k), n]
        sites = [(*anchors, *n), (*anchors, *n), n]
        stood_in = [(*anchors, d), (d, d), *sites]
        *there, turns, rates, widths, order = parts[:8]
        fits = len(parts[0]) + k == d and shapes in (expected, expected + stood_in, [*expected, *stood_in, n, *sites])
        if not fits or (widths and np.shape(order) != n):
            raise ValueError("the store was made with another model: with other parameters, or other inputs.")
        noise, places, sites, then = parts[12], parts[13:15], parts[15:18], parts[19:]
        f = parts[18] if then else None
        tuned = Tuned(
            Around(*parts[8:10]),
            Around(*parts[10:12]),
            noise,
            StandIns(places[0], places[1], Sites(*sites), f, Sites(*then) if then else None) if sites else None,
            turns,
            rates,
            Pivots.in_order(np.asarray(order, int), tuple(widths)) if widths else None,
        )
        return cls(joint, *there, tuned=tuned)

    def prepare(self, prior: Prior) -> _Prepared:
        if not isinstance(prior, JointPrior):
            raise TypeError(f"{type(self).__name__} is a move for models with unknown parameters, not for {prior!r}.")
        fixed = None if self.of_kernel else self.joint.at(np.zeros(self.joint.parameters.size), prior.inputs)
        own = self.tuned
        around = own.together, own.likelihood
        return _Prepared(prior.inputs, own.pivots, fixed, *around, own.noise, own.sites)

    def noise_spec(self, prior: Prior, prepared: _Prepared) -> NoiseSpec:
        parameters, likelihood, size = self.joint.parameters.size, len(self.of_likelihood), prepared.noise.size
        ends = np.cumsum([parameters, likelihood, size, self.latent * size])
        turns = np.array(self.tuned.turns)

        def draw(rng: np.random.Generator, updates: int) -> ParameterDraws:
            # Two columns more than are used: that many numbers have always been drawn, and a seed must mean the same.
            normals = rng.standard_normal((updates, int(ends[-1]) + 2))
            to_all, to_likelihood, surrogate, latent, _ = np.split(normals, ends, axis=1)
            way, around = turns[np.arange(updates) % len(turns)].T
            shape = prepared.noise.shape
            return ParameterDraws(
                to_all,
                to_likelihood,
                surrogate.reshape(updates, *shape),
                latent.reshape(updates, self.latent, *shape),
                way,
                around,
            )

        return NoiseSpec(draw, searches=2 + self.latent, numbers=prior.size)

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Update all parameters, then the latent functions, then the parameters of the likelihood."""
        known: _Prepared = target.prepared
        draws: ParameterDraws = noise.drawn
        xp = np if isinstance(state.f, np.ndarray) else jnp
        free = (draws.around < 2) | (np.arange(self.joint.parameters.size) == draws.around - 2)
        which = xp.where(draws.around < 2, draws.around, 0)
        known = known._replace(together=known.together[which], likelihood=known.likelihood[which], free=free)
        target = target.within(target.log_likelihood, known)
        total = Info(0, 0, False, 0.0)
        if self.of_kernel:
            own = noise.search(known.together.factor @ draws.to_all, 0)
            ways = [partial(_MOVES[way], self, target, own, draws.surrogate) for way in self.ways]
            point, total = pick(draws.way, ways, state) if len(ways) > 1 else ways[0](state)
            state = target.at(point.flat)
        factorised = total.evaluations
        state, info = self._latents(target, noise.share(draws.latent, slice(1, -1)), state)
        total = total.then(info)
        if self.of_likelihood:
            own = noise.search(known.likelihood.factor @ draws.to_likelihood, -1)
            state, info = self._of_likelihood(target, own, state)
            total = total.then(info)
        return state, total._replace(angle=factorised * 1.0, more=(factorised,))

    def _latents(self, target: Target, noise: UpdateNoise, state: State) -> tuple[State, Info]:
        """All updates of the latent functions. The last one does not depend on sites."""
        known: _Prepared = target.prepared
        u, _, _ = self.split(state.f, target)
        found = self.sites(u, target)
        around = 0 if found is None else self.latent - 1

        def move(lower: Any, mean: Any) -> tuple[State, Info]:
            now, total = state, Info(0, 0, False, 0.0)
            for rows, sites in ((slice(0, around), found), (slice(around, self.latent), None)):
                if rows.stop > rows.start:
                    own = noise.share(noise.drawn[rows], rows)
                    now, info = self._latent(target, own, now, Given(lower, mean, sites))
                    total = total.then(info)
            return now, total

        if not self.of_kernel:
            return move(*known.fixed)
        return self.joint.with_factors(u, known.inputs, known.pivots, move)

    def _latent(self, target: Target, noise: UpdateNoise, state: State, given: Given) -> tuple[State, Info]:
        """Elliptical slice sampling of the latent functions, on ellipses of the prior or of the prior times sites."""
        normals, centre, offset = given.spread(noise.drawn), given.centre, given.offset
        xp = np if isinstance(normals, np.ndarray) else jnp
        now = self.split(state.f, target)

        def point_at(y: Any) -> Point:
            z, f = xp.split(y, 2)
            return Point(now.u, z.reshape(centre.shape) + centre, f.reshape(centre.shape) + offset)

        def value(y: Any) -> Any:
            point = point_at(y)
            return target.log_likelihood(point.flat) - given.log_sites(point.f)

        on = target.within(value, None)

        def one(state: State, row: tuple[Any, ...]) -> tuple[State, Any]:
            nu, level, first, key = row
            new, info = on.search(ELLIPSE, Noise(nu, level, Uniforms(first, key)), state)
            return new, info[:-1]

        count = len(normals)
        nu = xp.concatenate([normals.reshape(count, -1), multiply(given.lower, normals).reshape(count, -1)], axis=1)
        start = xp.concatenate([(now.z - centre).ravel(), (now.f - offset).ravel()])
        rows = (nu, noise.level, noise.uniforms.first, noise.uniforms.key)
        found, infos = fold(one, State(start, state.log_likelihood - given.log_sites(now.f)), rows)
        evaluations, nans, stuck, angle = infos
        info = Info(evaluations.sum(dtype=np.int32), nans.sum(dtype=np.int32), stuck.any(), angle[-1])
        return target.at(point_at(found.f).flat), info

    def _of_likelihood(self, target: Target, noise: Noise, state: State) -> tuple[State, Info]:
        """Parameters that f does not depend on."""
        where, around = np.array(self.of_likelihood), target.prepared.likelihood

        def point(away: Any) -> Any:
            return put(state.f, where, around.centre + away)

        def value(away: Any) -> Any:
            x = point(away)
            return target.log_likelihood(x) + self.residual(x, around, away)

        here = state.f[where] - around.centre
        known = state.log_likelihood + self.residual(state.f, around, here)
        found, info = target.within(value, None).search(ELLIPSE, noise, State(here, known))
        return target.at(point(found.f)), info

    def sites(self, u: Any, target: Target) -> Sites | None:
        """The sites for some parameters."""
        stand_ins: StandIns | None = target.prepared.sites
        return None if stand_ins is None else stand_ins.at(u, target.log_likelihood)

    def split(self, x: Any, target: Target) -> Point:
        """The parts of a point."""
        return self.joint.split(x, target.prepared.noise.shape[1])

    def residual(self, x: Any, around: Around, away: Any) -> Any:
        """The logarithm of p(u) / q(u)."""
        return self.joint.parameters.log_density(x[: self.joint.parameters.size]) - around.log_density(away)


# --- four ways to move all parameters ----------------------------------------------------------------------


def _white(sweep: Sweep, target: Target, noise: Noise, normals: Any, state: State) -> tuple[Point, Info]:
    """The white noise stays."""
    here = _Here(sweep, target, state)

    def moved(u: Any, lower: Any, mean: Any) -> tuple[Point, Any]:
        return Point(u, here.now.z, mean + multiply(lower, here.now.z)), 0.0

    return here.search(noise, moved)


def _fixed(sweep: Sweep, target: Target, noise: Noise, normals: Any, state: State) -> tuple[Point, Info]:
    """The latent functions stay, and their prior's density changes."""
    here = _Here(sweep, target, state)

    def moved(u: Any, lower: Any, mean: Any) -> tuple[Point, Any]:
        z = solve(lower, here.now.f - mean)
        return Point(u, z, mean + multiply(lower, z)), -0.5 * (z * z).sum() - log_determinant(lower)

    return here.search(noise, moved)


def _surrogate(sweep: Sweep, target: Target, noise: Noise, normals: Any, state: State) -> tuple[Point, Info]:
    """Surrogate data g = f - m + noise stay, and the white noise of f given them."""
    here, variance = _Here(sweep, target, state), target.prepared.noise

    def begin(u: Any, lower: Any, mean: Any) -> tuple[Sites, Any]:
        data = here.now.f - mean + variance**0.5 * normals
        sites = Sites(data / variance, 1.0 / variance)  # of f - m
        return sites, Given(lower, 0.0 * mean, sites).whiten(here.now.z)

    sites, eta = here.at(here.away, begin)

    def moved(u: Any, lower: Any, mean: Any) -> tuple[Point, Any]:
        given = Given(lower, 0.0 * mean, sites)
        z = given.color(eta)
        return Point(u, z, mean + multiply(lower, z)), given.log_evidence

    return here.search(noise, moved)


def _sites(sweep: Sweep, target: Target, noise: Noise, normals: Any, state: State) -> tuple[Point, Info]:
    """The white noise of f given the sites stays."""
    here = _Here(sweep, target, state)

    def begin(u: Any, lower: Any, mean: Any) -> Any:
        return Given(lower, mean, sweep.sites(u, target)).whiten(here.now.z)

    eta = here.at(here.away, begin)

    def moved(u: Any, lower: Any, mean: Any) -> tuple[Point, Any]:
        given = Given(lower, mean, sweep.sites(u, target))
        z = given.color(eta)
        f = mean + multiply(lower, z)
        return Point(u, z, f), given.log_evidence - given.log_sites(f)

    return here.search(noise, moved)


class _Here:
    """Where the chain is, and the search for other parameters from there."""

    def __init__(self, sweep: Sweep, target: Target, state: State):
        self._sweep, self._target = sweep, target
        self._around: Around = target.prepared.together
        self.now = sweep.split(state.f, target)
        self.away = self.now.u - self._around.centre
        """Of the parameters, from the centre of the Gaussian that they move around."""

    def at(self, away: Any, then: Callable[..., Any]) -> Any:
        """then(u, factors, means), for parameters some way from the centre."""
        known: _Prepared = self._target.prepared
        u = self._around.centre + self._kept(away)
        return self._sweep.joint.with_factors(u, known.inputs, known.pivots, partial(then, u))

    def _kept(self, away: Any) -> Any:
        """The same, with parameters that do not move where they are."""
        xp = np if isinstance(away, np.ndarray) else jnp
        return xp.where(self._target.prepared.free, away, self.away)

    def search(self, noise: Noise, moved: Callable[..., Any]) -> tuple[Point, Info]:
        """Slice sample the parameters; `moved` says where all goes, and what multiplies the likelihood there."""

        def value(away: Any) -> Any:
            point, log_factor = self.at(away, moved)
            residual = self._sweep.residual(point.u, self._around, self._kept(away))
            return self._target.log_likelihood(point.flat) + residual + log_factor

        start = State(self.away, value(self.away))
        found, info = self._target.within(value, None).search(ELLIPSE, noise, start)
        return self.at(found.f, moved)[0], info


_MOVES = {"white": _white, "sites": _sites, "surrogate": _surrogate, "fixed": _fixed}

"""The move that updates hyperparameters and latent functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from ellipslice.approximations.sites import Sites
from ellipslice.moves import EllipticalSlice, Info, Move, State
from ellipslice.moves.array_ops import scan, set_block, switch
from ellipslice.moves.base import Target
from ellipslice.noise import Noise, NoiseSpec, Uniforms, UpdateNoise
from ellipslice.parameters.conditioned_noise import ConditionedNoise
from ellipslice.parameters.factor import Factor
from ellipslice.parameters.joint import JointModel, JointPrior, Point
from ellipslice.parameters.parametrisations import PARAMETRISATIONS, HyperparameterSearch
from ellipslice.parameters.pivots import Pivots
from ellipslice.parameters.sites import SiteInterpolator
from ellipslice.parameters.stored_update import StoredUpdate
from ellipslice.parameters.update_settings import GAUSSIANS, JointSettings, ParameterGaussian
from ellipslice.priors import Prior

ELLIPSE = EllipticalSlice()


class _Prepared(NamedTuple):
    """Arrays that updates need. `step` replaces each pair of Gaussians by the one that it uses."""

    inputs: Any
    pivots: Pivots | None
    fixed: tuple[Factor, Any] | None
    """Factor and means, if no hyperparameter enters them."""
    together: ParameterGaussian
    """Gaussian of all hyperparameters."""
    likelihood: ParameterGaussian
    """Gaussian of the hyperparameters that enter only the likelihood."""
    surrogate_variance: Any
    sites: SiteInterpolator | None
    free: Any = None
    """Mask of the elements of u that the update moves, shape (size,)."""


class ParameterDraws(NamedTuple):
    """The random numbers of one update, which are standard normals, and its step."""

    to_all: Any
    """Normals for all hyperparameters, shape (size,)."""
    to_likelihood: Any
    """Normals for the hyperparameters that enter only the likelihood."""
    surrogate: Any
    """Normals for surrogate data, shape (latents, n)."""
    latent: Any
    """Normals for the updates of the latent functions, shape (latent_updates, latents, n)."""
    parametrisation: Any
    """Index of the step's parametrisation in `JointUpdate.parametrisations`."""
    gaussian: Any
    """Index of the step's Gaussian in `GAUSSIANS`."""
    free: Any
    """Mask of the elements of u that the step moves, shape (size,)."""


@dataclass(frozen=True)
class JointUpdate(Move):
    """Updates of the hyperparameters, then of the latent functions, both by elliptical slice sampling.

    The density p(u) of the hyperparameters is written as a Gaussian q(u) times the ratio p(u) / q(u). So they can move
    on ellipses of q, with no step size to tune. Each evaluation needs a factorisation of the covariance. The
    parametrisation determines the quantity that is fixed while u moves:

    - "whitened": the white noise z of f = m(u) + L(u) z. For data that are not informative.
    - "fixed_latent": f itself. The prior density N(f; m(u), Sigma(u)) is then part of the ratio. For data that
    determine
      f almost completely.
    - "surrogate": the white noise of f given surrogate data g = f - m + noise, which are drawn in each update (Murray &
      Adams 2010). For informative data.
    - "sites": the white noise of f given sites, which approximate the likelihood. If they fit well, this noise and u
      are nearly independent. The ratio of likelihood and sites is part of the target, so the update is exact. The
      latent functions move on ellipses of the prior times the sites, too. For log-likelihoods that factorise over the
      inputs.

    All hyperparameters move jointly. Those that enter only the likelihood move once more with f fixed, which needs no
    factorisation. The statistic `factorisations` is the number of values of the kernel's hyperparameters that were
    tried, with one factorisation each; `angle` is the same number.

    Parameters
    ----------
    joint : JointModel
    of_kernel, of_likelihood : tuple of int
        Indices of the elements of u that enter kernels or means, and of those that enter only the likelihood.
    parametrisations : tuple of str
        Names of `PARAMETRISATIONS` that the steps use.
    latent_updates : int
        Number of updates of the latent functions after each one of the hyperparameters. Default: 5.
    settings : JointSettings

    References
    ----------
    Murray & Adams (2010), Slice sampling covariance hyperparameters of latent Gaussian models, NIPS 23.
    """

    stored_as = "Sweep"
    statistics: ClassVar[Mapping[str, type]] = MappingProxyType({"factorisations": int})

    joint: JointModel
    of_kernel: tuple[int, ...]
    of_likelihood: tuple[int, ...]
    parametrisations: tuple[str, ...]
    latent_updates: int = 5
    settings: JointSettings = field(compare=False, repr=False, kw_only=True)

    @property
    def used(self) -> list[str]:
        """Parametrisations of the steps, in the order of their first use: the preferred one first."""
        return list(dict.fromkeys(step.parametrisation for step in self.settings.mixture if step.parametrisation))

    def stored(self) -> list[Any]:
        """Return the parts that a store contains, all except the joint model. `restored` is the inverse."""
        return StoredUpdate.of(self).leaves

    @classmethod
    def restored(cls, joint: JointModel, inputs: np.ndarray, leaves: list[Any]) -> JointUpdate:
        """Return the move from the parts that `stored` returned. Raise if they do not fit the model."""
        stored = StoredUpdate.read(leaves, joint, inputs)
        return cls(
            joint,
            stored.of_kernel,
            stored.of_likelihood,
            stored.parametrisations,
            stored.latent_updates,
            settings=stored.settings(joint.parameters.elements),
        )

    def prepare(self, prior: Prior) -> _Prepared:
        if not isinstance(prior, JointPrior):
            raise TypeError(f"this move is for models with unknown hyperparameters, not for {prior!r}. Leave move out.")
        own, middle = self.settings, np.zeros(self.joint.parameters.size)
        fixed = None if self.of_kernel else self.joint.factors.at(middle, prior.inputs)
        return _Prepared(
            prior.inputs, own.pivots, fixed, own.together, own.likelihood, own.surrogate_variance, own.sites
        )

    def noise_spec(self, prior: Prior, prepared: _Prepared) -> NoiseSpec:
        shape, elements = prepared.surrogate_variance.shape, self.joint.parameters.elements
        size = prepared.surrogate_variance.size
        ends = np.cumsum([len(elements), len(self.of_likelihood), size, self.latent_updates * size])
        steps = self.settings.mixture
        names = [self.parametrisations.index(step.parametrisation) if step.parametrisation else 0 for step in steps]
        gaussians = [GAUSSIANS.index(step.around) for step in steps]
        free = np.array([[step.alone in (None, element) for element in elements] for step in steps])

        def draw(rng: np.random.Generator, updates: int) -> ParameterDraws:
            # Two columns more than are used: earlier versions drew them, and draws for a seed must not change.
            normals = rng.standard_normal((updates, int(ends[-1]) + 2))
            to_all, to_likelihood, surrogate, latent, _ = np.split(normals, ends, axis=1)
            turn = np.arange(updates) % len(steps)
            return ParameterDraws(
                to_all,
                to_likelihood,
                surrogate.reshape(updates, *shape),
                latent.reshape(updates, self.latent_updates, *shape),
                np.array(names)[turn],
                np.array(gaussians)[turn],
                free[turn],
            )

        return NoiseSpec(draw, searches=2 + self.latent_updates, numbers=prior.size)

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Update all hyperparameters, the latent functions, and then the hyperparameters of the likelihood again."""
        prepared: _Prepared = target.prepared
        draws: ParameterDraws = noise.drawn
        together, likelihood = prepared.together.select(draws.gaussian), prepared.likelihood.select(draws.gaussian)
        target = target.with_likelihood(
            target.log_likelihood, prepared._replace(together=together, likelihood=likelihood, free=draws.free)
        )
        total = Info(0, 0, False, 0.0)
        if self.of_kernel:
            own = noise.search(together.factor @ draws.to_all, 0)
            point, total = self._move_all(target, own, draws, state)
            state = target.at(point.flat)
        factorised = total.evaluations
        state, info = self._move_latents(target, noise.share(draws.latent, slice(1, -1)), state)
        total = total.combine(info)
        if self.of_likelihood:
            own = noise.search(likelihood.factor @ draws.to_likelihood, -1)
            state, info = self._move_likelihood(target, own, state)
            total = total.combine(info)
        return state, total._replace(angle=factorised * 1.0, more=(factorised,))

    def _move_all(self, target: Target, noise: Noise, draws: ParameterDraws, state: State) -> tuple[Point, Info]:
        """Update all hyperparameters in the parametrisation of the step. Return the new point and the statistics."""

        def move(name: str, state: State) -> tuple[Point, Info]:
            return PARAMETRISATIONS[name](HyperparameterSearch(self, target, noise, draws.surrogate, state))

        moves = [partial(move, name) for name in self.parametrisations]
        return switch(draws.parametrisation, moves, state) if len(moves) > 1 else moves[0](state)

    def _move_latents(self, target: Target, noise: UpdateNoise, state: State) -> tuple[State, Info]:
        """Make all updates of the latent functions. The last one uses ellipses of the prior, without sites."""
        prepared: _Prepared = target.prepared
        u, _, _ = self.split(state.f, target)
        found = self.sites(u, target)
        with_sites = 0 if found is None else self.latent_updates - 1

        def move(factor: Factor, mean: Any) -> tuple[State, Info]:
            now, total = state, Info(0, 0, False, 0.0)
            for rows, sites in ((slice(0, with_sites), found), (slice(with_sites, self.latent_updates), None)):
                if rows.stop > rows.start:
                    own = noise.share(noise.drawn[rows], rows)
                    now, info = self._move_latents_on(ConditionedNoise(factor, mean, sites), target, own, now)
                    total = total.combine(info)
            return now, total

        if prepared.fixed is not None:
            return move(*prepared.fixed)
        return self.joint.factors.apply(u, prepared.inputs, prepared.pivots, move)

    def _move_latents_on(
        self, conditioned: ConditionedNoise, target: Target, noise: UpdateNoise, state: State
    ) -> tuple[State, Info]:
        """Update the latent functions on ellipses of the prior, or of the prior times sites."""
        normals, centre, offset = conditioned.draw_zero_mean(noise.drawn), conditioned.centre, conditioned.offset
        xp = np if isinstance(normals, np.ndarray) else jnp
        now = self.split(state.f, target)

        def point_at(y: Any) -> Point:
            z, f = xp.split(y, 2)
            return Point(now.u, z.reshape(centre.shape) + centre, f.reshape(centre.shape) + offset)

        def value(y: Any) -> Any:
            point = point_at(y)
            return target.log_likelihood(point.flat) - conditioned.log_sites(point.f)

        on = target.with_likelihood(value, None)

        def one(state: State, row: tuple[Any, ...]) -> tuple[State, Any]:
            nu, level, first, key = row
            new, info = on.search(ELLIPSE, Noise(nu, level, Uniforms(first, key)), state)
            return new, info[:-1]

        count = len(normals)
        unwhitened = conditioned.factor.unwhiten(normals)
        nu = xp.concatenate([normals.reshape(count, -1), unwhitened.reshape(count, -1)], axis=1)
        start = xp.concatenate([(now.z - centre).ravel(), (now.f - offset).ravel()])
        rows = (nu, noise.level, noise.uniforms.first, noise.uniforms.key)
        found, infos = scan(one, State(start, state.log_likelihood - conditioned.log_sites(now.f)), rows)
        evaluations, nan_evaluations, failed, angle = infos
        info = Info(evaluations.sum(dtype=np.int32), nan_evaluations.sum(dtype=np.int32), failed.any(), angle[-1])
        return target.at(point_at(found.f).flat), info

    def _move_likelihood(self, target: Target, noise: Noise, state: State) -> tuple[State, Info]:
        """Update the hyperparameters that enter only the likelihood, with f fixed."""
        where, gaussian = np.array(self.of_likelihood), target.prepared.likelihood

        def point(away: Any) -> Any:
            return set_block(state.f, where, gaussian.centre + away)

        def value(away: Any) -> Any:
            x = point(away)
            return target.log_likelihood(x) + self.residual(x, gaussian, away)

        here = state.f[where] - gaussian.centre
        known = state.log_likelihood + self.residual(state.f, gaussian, here)
        found, info = target.with_likelihood(value, None).search(ELLIPSE, noise, State(here, known))
        return target.at(point(found.f)), info

    def sites(self, u: Any, target: Target) -> Sites | None:
        """Return the sites for hyperparameters u; None if the move has none."""
        interpolator: SiteInterpolator | None = target.prepared.sites
        return None if interpolator is None else interpolator.at(u, target.log_likelihood)

    def split(self, x: Any, target: Target) -> Point:
        """Return a flat vector x as a point."""
        return self.joint.split(x, target.prepared.surrogate_variance.shape[1])

    def residual(self, x: Any, gaussian: ParameterGaussian, away: Any) -> Any:
        """Return log p(u) - log q(u), up to a constant, for the flat point x. away is u minus the centre of q."""
        return self.joint.parameters.log_density(x[: self.joint.parameters.size]) - gaussian.log_density(away)

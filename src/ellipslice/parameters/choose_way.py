"""Chooses how the unknown parameters are moved: pilot runs with each way, and the one that moves best for its cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ellipslice.diagnostics import effective_size
from ellipslice.jax_settings import on_cpu
from ellipslice.parameters.fit_sites import often, spread_out, stand_ins
from ellipslice.parameters.joint import JointPrior
from ellipslice.parameters.pivots import find_pivots
from ellipslice.parameters.point_likelihood import PointLikelihood
from ellipslice.parameters.sites import StandIns
from ellipslice.parameters.sweep import WAYS, Around, Sweep, Tuned
from ellipslice.sampling import sample

COST = {"white": 1.0, "fixed": 1.3, "surrogate": 3.0, "sites": 3.0}
"""What trying one value of the parameters takes, in factorisations of the covariance."""

INFLATE = 1.4
"""A Gaussian to move parameters around is wider than what a pilot run saw: a narrow one would hold them back."""

CHAINS, WARMUP, DRAWS = 2, 100, 150

ROUNDS, ENOUGH = 4, 25
"""Each way is tried again, at most so often, until the best of them has made so many effective draws."""

LOOKED_AT = 40
"""Values of the parameters at which the rank of the covariance is found."""


def choose(
    prior: JointPrior,
    log_likelihood: PointLikelihood,
    of_kernel: tuple[int, ...],
    of_likelihood: tuple[int, ...],
    *,
    ways: tuple[str, ...] | None,
    latent: int,
    seed: int,
    engine: str | None,
    executor: Any = None,
    timeout: float | None = None,
) -> Chosen:
    """Look around with the prior's Gaussian, fit another to where the parameters are, then try each way with it."""
    joint, inputs = prior.joint, prior.inputs
    seeds = iter(np.random.SeedSequence(seed).generate_state(1 + ROUNDS * len(WAYS)).tolist())
    centre, deviation = joint.parameters.gaussian()
    wide = _Gaussian(centre, np.diag(deviation))
    shape = (len(joint.latents), len(inputs))

    pivots = None
    if of_kernel and "fixed" not in (ways or ()):  # with f fixed the inverse of a whole factor is needed
        pivots = find_pivots(joint, inputs, joint.parameters.draw(np.random.default_rng(seed), LOOKED_AT))
    sites = stand_ins(prior, log_likelihood, centre[None], pivots)
    if ways is not None and "sites" in ways and isinstance(sites, str):
        raise ValueError(
            f'ways has "sites", which need a log-likelihood that is a sum over the values of f; but {sites}.'
        )
    found = None if isinstance(sites, str) else often(sites)
    tried = ways or _worth_trying(found is not None, pivots is not None, len(joint.latents))

    def sweep(near: _Gaussian, noise: Any, found: StandIns | None, turns: Any, rates: tuple[float, ...] = ()) -> Sweep:
        around = _both(wide, near, range(len(centre))), _both(wide, near, of_likelihood)
        tuned = Tuned(*around, noise, found, turns, rates, pivots)
        return Sweep(joint, of_kernel, of_likelihood, tried if of_kernel else (), latent, tuned=tuned)

    def pilot(move: Sweep, initial: Any, warmup: int) -> _Pilot:
        tree = sample(
            log_likelihood, prior, move=move, chains=range(CHAINS), draws=DRAWS, warmup=warmup, seed=next(seeds),
            initial=initial, engine=engine, executor=executor, timeout=timeout, progress=False,
        )  # fmt: skip
        return _Pilot(tree.posterior.f.values, tree.sample_stats)

    def refit(*pilots: _Pilot) -> tuple[_Gaussian, StandIns | None]:
        u = np.concatenate([pilot.x for pilot in pilots])[..., : len(centre)].reshape(-1, len(centre))
        near = _near(prior, u)
        again = found and stand_ins(prior, log_likelihood, spread_out(u, *near), pivots)
        return near, found if again is None or isinstance(again, str) else again

    # One by one, too: at first a parameter that the data know well would hold back all that move with it.
    all_of_them = tuple((way, one) for one in (0, *range(2, 2 + len(centre))) for way in range(len(tried)))
    seen = pilot(sweep(wide, np.ones(shape), found, all_of_them), None, WARMUP)
    noise = _surrogate_noise(prior, log_likelihood, seen)
    near, found = refit(seen)
    if len(tried) == 1 or not of_kernel:
        turns = ((0, 1), (0, 1), (0, 1), (0, 0))
        return Chosen(sweep(near, noise, found, turns), seen.x)
    starts = [seen.ends] * len(tried)
    for _ in range(ROUNDS):
        runs = [
            pilot(sweep(near, noise, found, ((number, 1), (number, 1), (number, 0))), start, WARMUP // 4)
            for number, start in enumerate(starts)
        ]
        spread = np.max([run.spread for run in runs], axis=0)
        effective = np.array([run.effective(of_kernel, spread) for run in runs])
        rates = effective / [COST[way] * (1 + run.factorisations) for way, run in zip(tried, runs, strict=True)]
        one, two = np.argsort(-rates)[:2].tolist()
        if effective[one] > ENOUGH:
            break
        near, found = refit(*runs)
        starts = [run.ends for run in runs]
    near, found = refit(runs[one])
    turns = ((one, 1),) * 3 + ((one, 0),) + ((one, 1),) * 4 + ((two, 1), (two, 0))
    best = sweep(near, noise, found, turns, tuple((rates / rates.max()).tolist()))
    return Chosen(best, runs[one].x)


def _worth_trying(sites: bool, pivots: bool, latents: int) -> tuple[str, ...]:
    """Sites do better than surrogate data, unless several functions depend on each other, which sites do not know."""
    ways = ["white"]
    ways += ["sites"] if sites else []
    ways += ["surrogate"] if not sites or latents > 1 else []
    ways += ["fixed"] if not sites and not pivots else []
    return tuple(ways)


class Chosen(NamedTuple):
    """A move, and where pilot runs with it were."""

    move: Sweep
    seen: np.ndarray
    """(runs, draws, size)."""

    def starts(self, seed: int, chains: Sequence[int]) -> np.ndarray:
        """A start for each chain. From the prior's draws some take thousands of updates to where the others are."""
        points = self.seen.reshape(-1, self.seen.shape[-1])
        return np.stack([points[np.random.default_rng([seed, number]).integers(len(points))] for number in chains])


class _Gaussian(NamedTuple):
    centre: np.ndarray
    factor: np.ndarray


def _near(prior: JointPrior, u: np.ndarray) -> _Gaussian:
    """One a bit wider than where the parameters were, (count, size)."""
    _, deviation = prior.joint.parameters.gaussian()
    covariance = np.cov(u, rowvar=False).reshape(u.shape[1], -1) + np.diag((0.02 * deviation) ** 2)
    return _Gaussian(u.mean(0), INFLATE * np.linalg.cholesky(covariance))


def _both(wide: _Gaussian, near: _Gaussian, where: Sequence[int]) -> Around:
    """Number 0 is the prior's Gaussian, number 1 the posterior's, for some of the parameters."""
    chosen = np.array(where, int)
    covariances = [g.factor @ g.factor.T for g in (wide, near)]
    factors = [np.linalg.cholesky(c[np.ix_(chosen, chosen)]) if len(chosen) else np.zeros((0, 0)) for c in covariances]
    return Around(np.stack([wide.centre[chosen], near.centre[chosen]]), np.stack(factors))


class _Pilot:
    """What a pilot run saw."""

    def __init__(self, x: np.ndarray, statistics: Any):
        self.x, self._statistics = x, statistics

    @property
    def ends(self) -> np.ndarray:
        """Where its chains are."""
        return self.x[:, -1]

    @property
    def factorisations(self) -> float:
        return float(self._statistics.angle.mean())

    @property
    def spread(self) -> np.ndarray:
        """Variances within chains."""
        return self.x.var(1).mean(0)

    def effective(self, of_kernel: tuple[int, ...], spread: np.ndarray) -> float:
        """Effective draws of the slowest of the kernel's parameters.

        Fewer, if its chains spread less than the `spread` of others: a chain that never leaves one of two modes moves
        well there, and does not know of the other.
        """
        share = np.minimum(1.0, self.spread / spread)
        return min(_effective(self.x[..., i]) * float(share[i]) for i in of_kernel)


def _effective(x: np.ndarray) -> float:
    """Of chains (count, draws): no more than what the means of their halves, which should agree, are worth."""
    halves = np.concatenate(np.array_split(x, 2, axis=1)).mean(1)
    return min(float(effective_size(x).sum()), len(halves) * x.var() / (halves.var() + 1e-300))


def _surrogate_noise(prior: JointPrior, log_likelihood: PointLikelihood, seen: _Pilot) -> np.ndarray:
    """Noise variances that make surrogate data about as informative as the data: what the log-likelihood bends by.

    Where that cannot be known, as variable as f was.
    """
    joint, n = prior.joint, len(prior.inputs)
    points = [joint.split(x, n) for x in seen.x.reshape(-1, seen.x.shape[-1])[:: max(1, seen.x.shape[1] // 10)]]
    f = np.stack([point.f for point in points])
    spread = f.var(0) + 1e-6
    middle = np.array(joint.split(seen.x[0, -1], n).u)

    try:
        with on_cpu():
            bends = np.stack([np.asarray(log_likelihood.slopes(middle, one)[2]) for one in f[:: max(1, len(f) // 8)]])
    except Exception:  # noqa: BLE001  whatever a function raises that JAX cannot trace
        return spread
    precision = np.clip(-bends.mean(0), 1e-2 / spread, 1e4 / spread)
    return 1.0 / precision

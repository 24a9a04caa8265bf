"""Choose the parametrisation in which hyperparameters move, by pilot runs with each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ellipslice.diagnostics import effective_sample_size
from ellipslice.jax_settings import on_cpu
from ellipslice.parameters.fit_sites import farthest_points, fit_sites, repeat_anchor
from ellipslice.parameters.joint import JointPrior
from ellipslice.parameters.joint_update import JointUpdate
from ellipslice.parameters.parametrisations import PARAMETRISATIONS
from ellipslice.parameters.pivots import find_pivots
from ellipslice.parameters.point_likelihood import PointLikelihood
from ellipslice.parameters.sites import SiteInterpolator
from ellipslice.parameters.update_settings import JointSettings, ParameterGaussian, Step
from ellipslice.sampling import sample

RELATIVE_COST = {"whitened": 1.0, "fixed_latent": 1.3, "surrogate": 3.0, "sites": 3.0}
"""Cost of trying one value of the hyperparameters, in factorisations of the covariance."""

PROPOSAL_INFLATION = 1.4
"""Factor by which the posterior's Gaussian is wider than the draws it is fitted to. A narrower one mixes slowly."""

RIDGE_FRACTION = 0.02
"""Standard deviation, as a fraction of the prior's, that is added for each hyperparameter to such a Gaussian."""

PILOT_CHAINS, PILOT_WARMUP, PILOT_DRAWS = 2, 100, 150
"""Number of chains of a pilot run, and of warm-up updates and draws of each chain."""

MAX_PILOT_ROUNDS, PILOT_EFFECTIVE_SAMPLES = 4, 25
"""Pilot runs are repeated at most this many times, until the best parametrisation has this many effective samples."""

RANK_PROBE_DRAWS = 40
"""Number of prior draws of the hyperparameters at which the numerical rank of the covariance is computed."""


class JointPosterior(NamedTuple):
    """The posterior of hyperparameters and latent functions."""

    prior: JointPrior
    log_likelihood: PointLikelihood
    of_kernel: tuple[int, ...]
    """Indices of the elements of u that enter kernels or means."""
    of_likelihood: tuple[int, ...]
    """Indices of the elements of u that enter the likelihood only."""


class PilotOptions(NamedTuple):
    """The user's options for pilot runs."""

    parametrisations: tuple[str, ...] | None
    """The candidates. None: those that suit the model."""
    latent_updates: int
    seed: int
    engine: str | None
    executor: Any = None
    timeout: float | None = None


class ChosenMove(NamedTuple):
    """The chosen move, and the draws of its pilot run."""

    move: JointUpdate
    draws: np.ndarray
    """Draws of the pilot run, shape (chains, draws, size)."""

    def starts(self, seed: int, chains: Sequence[int]) -> np.ndarray:
        """Return a draw of the pilot run for each chain. Chains from prior draws may need thousands of updates."""
        points = self.draws.reshape(-1, self.draws.shape[-1])
        return np.stack([points[np.random.default_rng([seed, number]).integers(len(points))] for number in chains])


def choose_parametrisation(posterior: JointPosterior, options: PilotOptions) -> ChosenMove:
    """Return the move with the most effective samples per cost in pilot runs.

    The first run uses ellipses of a Gaussian approximation of the prior. A Gaussian of the posterior and sites are then
    fitted to its draws, and a pilot run is made with each parametrisation.
    """
    runs = PilotRuns(posterior, options)
    first = runs.explore()
    if len(runs.candidates) == 1 or not posterior.of_kernel:
        return runs.only_candidate(first)
    return runs.compare(first)


class PilotRuns:
    """Pilot runs of a model, and the settings that they find.

    Attributes
    ----------
    candidates : tuple of str
        The parametrisations that are compared.
    """

    def __init__(self, posterior: JointPosterior, options: PilotOptions):
        self._posterior, self._options = posterior, options
        self._joint = posterior.prior.joint
        given, parameters = options.parametrisations, self._joint.parameters
        self._seeds = iter(
            np.random.SeedSequence(options.seed).generate_state(1 + MAX_PILOT_ROUNDS * len(PARAMETRISATIONS)).tolist()
        )
        centre, std = parameters.gaussian()
        self._prior_gaussian = self._posterior_gaussian = ParameterGaussian(centre, np.diag(std))
        self._surrogate_variance = np.ones((len(self._joint.latents), len(posterior.prior.inputs)))
        self._pivots = None
        if posterior.of_kernel and "fixed_latent" not in (given or ()):  # which needs the inverse of a full factor
            probes = parameters.draw(np.random.default_rng(options.seed), RANK_PROBE_DRAWS)
            self._pivots = find_pivots(self._joint.factors, posterior.prior.inputs, probes)
        self._sites = self._first_sites(centre)
        self.candidates = given or _candidates(
            self._sites is not None, self._pivots is not None, len(self._joint.latents)
        )

    def _first_sites(self, centre: np.ndarray) -> SiteInterpolator | None:
        """Return sites for the median of the prior; None if the likelihood has none."""
        prior, log_likelihood, *_ = self._posterior
        found = fit_sites(prior, log_likelihood, centre[None], self._pivots)
        if not isinstance(found, str):
            return repeat_anchor(found)
        if "sites" in (self._options.parametrisations or ()):
            raise ValueError(
                'parameter_moves has "sites", which needs a log-likelihood that factorises over the elements of f, but '
                f"{found}. Leave it out."
            )
        return None

    def explore(self) -> _PilotRun:
        """Make the first run, with all candidates and the prior's Gaussian, and fit the settings to its draws.

        Hyperparameters move jointly and also one by one. In joint moves alone, one that the data determine well would
        slow down all others, as long as the Gaussian is that of the prior.
        """
        elements = (None, *self._joint.parameters.elements)
        mixture = tuple(Step(name, "prior", alone) for alone in elements for name in self._step_names)
        run = self._run(mixture, None, PILOT_WARMUP)
        self._surrogate_variance = _surrogate_variance(self._posterior, run)
        self._refit(run)
        return run

    def only_candidate(self, first: _PilotRun) -> ChosenMove:
        """Return the move with the first candidate, if it is the only one or no hyperparameter enters a kernel."""
        name = self._step_names[0]
        return ChosenMove(self._move((*(Step(name),) * 3, Step(name, "prior"))), first.x)

    def compare(self, first: _PilotRun) -> ChosenMove:
        """Run each candidate. Return a move with the best one in 8 of 10 updates, and the second best in the others."""
        starts = [first.ends] * len(self.candidates)
        for _ in range(MAX_PILOT_ROUNDS):
            runs = [
                self._run((Step(name), Step(name), Step(name, "prior")), start, PILOT_WARMUP // 4)
                for name, start in zip(self.candidates, starts, strict=True)
            ]
            effective, rates = self._rates(runs)
            best, second = np.argsort(-rates)[:2].tolist()
            if effective[best] > PILOT_EFFECTIVE_SAMPLES:
                break
            self._refit(*runs)
            starts = [run.ends for run in runs]
        self._refit(runs[best])
        one, two = self.candidates[best], self.candidates[second]
        mixture = (*(Step(one),) * 3, Step(one, "prior"), *(Step(one),) * 4, Step(two), Step(two, "prior"))
        return ChosenMove(self._move(mixture, tuple((rates / rates.max()).tolist())), runs[best].x)

    @property
    def _step_names(self) -> tuple[str | None, ...]:
        """The candidates as `Step.parametrisation`: None for each if no hyperparameter enters a kernel or a mean."""
        return self.candidates if self._posterior.of_kernel else (None,) * len(self.candidates)

    def _rates(self, runs: list[_PilotRun]) -> tuple[np.ndarray, np.ndarray]:
        """Return the effective samples of each run, and effective samples per cost, in factorisations."""
        variance = np.max([run.variance for run in runs], axis=0)
        effective = np.array([run.effective_samples(self._posterior.of_kernel, variance) for run in runs])
        pairs = zip(self.candidates, runs, strict=True)
        return effective, effective / [RELATIVE_COST[name] * (1 + run.factorisations) for name, run in pairs]

    def _move(self, mixture: tuple[Step, ...], rates: tuple[float, ...] = ()) -> JointUpdate:
        """Return the move with the current settings."""
        _, _, of_kernel, of_likelihood = self._posterior
        settings = JointSettings(
            _stack_gaussians(self._prior_gaussian, self._posterior_gaussian, range(self._joint.parameters.size)),
            _stack_gaussians(self._prior_gaussian, self._posterior_gaussian, of_likelihood),
            self._surrogate_variance,
            self._sites,
            mixture,
            rates,
            self._pivots,
        )
        names = self.candidates if of_kernel else ()
        return JointUpdate(
            self._joint, of_kernel, of_likelihood, names, self._options.latent_updates, settings=settings
        )

    def _run(self, mixture: tuple[Step, ...], initial: Any, warmup: int) -> _PilotRun:
        prior, log_likelihood, *_ = self._posterior
        _, _, _, engine, executor, timeout = self._options
        tree = sample(
            log_likelihood, prior, move=self._move(mixture), chains=range(PILOT_CHAINS), draws=PILOT_DRAWS,
            warmup=warmup, seed=next(self._seeds), initial=initial, engine=engine, executor=executor, timeout=timeout,
            progress=False,
        )  # fmt: skip
        return _PilotRun(tree.posterior.f.values, tree.sample_stats)

    def _refit(self, *runs: _PilotRun) -> None:
        """Fit the posterior's Gaussian, and sites at new anchors, to the hyperparameters in some runs."""
        prior, log_likelihood, *_ = self._posterior
        size = self._joint.parameters.size
        u = np.concatenate([run.x for run in runs])[..., :size].reshape(-1, size)
        self._posterior_gaussian = _fit_gaussian(u, self._joint.parameters.gaussian()[1])
        if self._sites is not None:
            anchors = farthest_points(u, *self._posterior_gaussian)
            found = fit_sites(prior, log_likelihood, anchors, self._pivots)
            self._sites = self._sites if isinstance(found, str) else found


def _candidates(sites: bool, pivots: bool, latents: int) -> tuple[str, ...]:
    """Return the parametrisations to compare.

    Sites mix better than surrogate data, except if several latent functions are correlated, which sites ignore.
    """
    names = ["whitened"]
    names += ["sites"] if sites else []
    names += ["surrogate"] if not sites or latents > 1 else []
    names += ["fixed_latent"] if not sites and not pivots else []
    return tuple(names)


def _fit_gaussian(u: np.ndarray, prior_std: np.ndarray) -> ParameterGaussian:
    """Return a Gaussian that is wider than draws of the hyperparameters, shape (count, size)."""
    covariance = np.cov(u, rowvar=False).reshape(u.shape[1], -1) + np.diag((RIDGE_FRACTION * prior_std) ** 2)
    return ParameterGaussian(u.mean(0), PROPOSAL_INFLATION * np.linalg.cholesky(covariance))


def _stack_gaussians(
    prior: ParameterGaussian, posterior: ParameterGaussian, indices: Sequence[int]
) -> ParameterGaussian:
    """Return the Gaussians of prior and posterior for some elements of u, in the order of `GAUSSIANS`."""
    chosen = np.array(indices, int)
    covariances = [g.factor @ g.factor.T for g in (prior, posterior)]
    factors = [np.linalg.cholesky(c[np.ix_(chosen, chosen)]) if len(chosen) else np.zeros((0, 0)) for c in covariances]
    return ParameterGaussian(np.stack([prior.centre[chosen], posterior.centre[chosen]]), np.stack(factors))


class _PilotRun:
    """The draws x of a pilot run, shape (chains, draws, size), and its statistics."""

    def __init__(self, x: np.ndarray, statistics: Any):
        self.x, self._statistics = x, statistics

    @property
    def ends(self) -> np.ndarray:
        """Last state of each chain, shape (chains, size)."""
        return self.x[:, -1]

    @property
    def factorisations(self) -> float:
        """Mean number of factorisations per update."""
        return float(self._statistics.factorisations.mean())

    @property
    def variance(self) -> np.ndarray:
        """Variance of each element within a chain, averaged over chains, shape (size,)."""
        return self.x.var(1).mean(0)

    def effective_samples(self, of_kernel: tuple[int, ...], largest_variance: np.ndarray) -> float:
        """Return the smallest effective sample size of the kernel's hyperparameters.

        It is reduced if the chains have less variance than those of another run: a chain that never leaves one of two
        modes mixes well there, but has not found the other.
        """
        fraction = np.minimum(1.0, self.variance / largest_variance)
        return min(_effective_samples(self.x[..., i]) * float(fraction[i]) for i in of_kernel)


def _effective_samples(x: np.ndarray) -> float:
    """Return the effective sample size of chains, shape (count, draws), limited by the variance of half-chain means."""
    halves = np.concatenate(np.array_split(x, 2, axis=1)).mean(1)
    return min(float(effective_sample_size(x).sum()), len(halves) * x.var() / (halves.var() + 1e-300))


def _surrogate_variance(posterior: JointPosterior, run: _PilotRun) -> np.ndarray:
    """Return noise variances, shape (latents, n), that make surrogate data about as informative as the data.

    These are 1 / curvature of the log-likelihood or, if JAX cannot trace it, the variances of f in the run.
    """
    joint, n = posterior.prior.joint, len(posterior.prior.inputs)
    points = [joint.split(x, n) for x in run.x.reshape(-1, run.x.shape[-1])[:: max(1, run.x.shape[1] // 10)]]
    f = np.stack([point.f for point in points])
    variance = f.var(0) + 1e-6
    u, derivatives = np.array(joint.split(run.x[0, -1], n).u), posterior.log_likelihood.derivatives
    try:
        with on_cpu():
            curvatures = np.stack([np.asarray(derivatives(u, one)[2]) for one in f[:: max(1, len(f) // 8)]])
    except Exception:  # noqa: BLE001  (a function that JAX cannot trace may raise anything)
        return variance
    precision = np.clip(-curvatures.mean(0), 1e-2 / variance, 1e4 / variance)
    return 1.0 / precision

"""Results of `evidence`."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.marginal.blind_spot import percent
from ellipslice.marginal.estimates import with_error
from ellipslice.sampling.result import build_tree

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Evidence:
    """Estimate of the log marginal likelihood log Z: a `TemperedEvidence` or a `NestedEvidence`.

    Attributes
    ----------
    log_z, standard_error : float
        Estimate of log Z, and its standard error from the variation between replicates. An interval has the factor of
        Student's t distribution with one degree of freedom less than there are replicates.
    replicate_log_z : array, shape (replicates,)
        Estimate of log Z of each replicate.
    blind_spot : float
        Smallest share of mass that this number of particles or live points would have found with a probability of 0.95,
        if they were independent. The subclasses define the mass. Between 0 and 1. A smaller region can contain most of
        the evidence without a trace in the estimate or its standard error. A larger region can be missed, too, if the
        updates mix slowly.
    information : float
        Information: the Kullback-Leibler divergence of the posterior from the prior. Nats. NaN if particles were first
        drawn from another Gaussian than the prior.
    draws : array, shape ``(particles, *shape)``, or dict of arrays for named latents
        Draws from the posterior.
    other : Evidence or None
        Estimate by the other method. None if `method="auto"` was not given, or if there was no comparison.
    methods_agree : bool or None
        Whether the estimates by both methods differ by at most 4 standard errors of the difference. None if there was
        no comparison, or if nested sampling is too noisy for it (standard error above 0.25).
    comparison : str
        Reason why `method="auto"` did not compare the methods; otherwise empty.
    evaluations : int
        Number of evaluations of the log-likelihood, including pilot runs and the check.
    nan_evaluations : int
        Number of evaluations that returned NaN, which counts as a likelihood of zero.
    failed_searches : int
        Number of updates that found no acceptable point and kept the state.
    engine : str
        Engine that moved the particles: "batched" (compiled code) or "host".
    seed : int
        Seed of the run.
    seconds : float
        Wall-clock time of this estimate. Seconds.
    """

    log_z: float
    standard_error: float
    replicate_log_z: np.ndarray
    blind_spot: float
    information: float
    draws: Any
    evaluations: int
    nan_evaluations: int
    failed_searches: int
    engine: str
    seed: int
    seconds: float
    other: Evidence | None = None
    methods_agree: bool | None = None
    comparison: str = ""

    def __repr__(self) -> str:
        found, limits = self._texts()
        lines = [f"log Z = {found[0]}", *(f"        {line}" for line in found[1:])]
        if self.other is not None:
            agrees = {True: "agrees", False: "DOES NOT AGREE", None: "too noisy to be a check"}[self.methods_agree]
            more, further = self.other._texts()
            lines += [f"        {more[0].removesuffix(')')}: {agrees})", f"Blind spots: {limits}; {further}."]
        else:
            lines += [f"Blind spot: {limits}."]
        return "\n".join([*lines, self.comparison]).rstrip()

    def _texts(self) -> tuple[list[str], str]:
        """Return a line for each estimate, and the blind spot in words."""
        raise NotImplementedError

    @property
    def tree(self) -> xarray.DataTree:
        """Draws as a DataTree with the group `posterior`, of one chain. The estimate is in its attributes."""
        draws = self.draws if isinstance(self.draws, dict) else {"f": self.draws}
        names = ("log_z", "standard_error", "blind_spot", "evaluations", "engine")
        about = {name: getattr(self, name) for name in names}
        about["seed"] = self.seed if self.seed < 2**63 else str(self.seed)  # attributes of a file are 64-bit integers
        created = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        about |= {"ellipslice_version": version("ellipslice"), "created_at": created}
        count = len(next(iter(draws.values())))
        tree = build_tree({name: own[None] for name, own in draws.items()}, {}, count, [0], None, None, about)
        del tree["sample_stats"]  # points of a population have no statistics of a chain
        return tree


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TemperedEvidence(Evidence):
    """Estimate of log Z along a tempered path, by sequential Monte Carlo, with a check and statistics of the run.

    `log_z` is the logarithm of the mean of the replicates' Z. `blind_spot` is a share of the mass of the Gaussian that
    the particles are first drawn from (`reference`): a region of this share holds at least one of the first draws with
    a probability of 0.95. It is about 3 divided by the number of particles. `draws` are the particles at the end,
    nearly independent unless `surviving_fraction` is small. The attributes of `Evidence` are not repeated here.

    Attributes
    ----------
    ais_log_z, ais_standard_error : float
        Estimate by annealed importance sampling, and its standard error. NaN if `check=False`.
    ais_effective_sample_size : float
        Effective sample size of the weights of annealed importance sampling. Below 100 it is too noisy to be a check.
        NaN if `check=False`.
    estimates_agree : bool or None
        Whether the two estimates differ by at most 4 standard errors of the difference. None if there is no check, or
        if it is too noisy.
    inverse_temperatures : array
        Inverse temperatures in increasing order, without 0; the last is 1.
    updates : array of int
        Number of elliptical slice updates of every particle at each inverse temperature.
    correlations : array
        Correlation of the log-likelihoods before and after these updates, in the pilot run.
    surviving_fraction : float
        Fraction of the first draws that have descendants among the final particles. Between 0 and 1.
    reference : str
        Gaussian that the particles were first drawn from: "prior", "laplace" or "ep".
    """

    ais_log_z: float
    ais_standard_error: float
    ais_effective_sample_size: float
    estimates_agree: bool | None
    inverse_temperatures: np.ndarray
    updates: np.ndarray
    correlations: np.ndarray
    surviving_fraction: float
    reference: str

    def _texts(self) -> tuple[list[str], str]:
        steps, start = len(self.inverse_temperatures), self.reference
        start = "prior" if start == "prior" else f"{start} approximation"
        estimate = with_error(self.log_z, self.standard_error)
        lines = [f"{estimate}  (sequential Monte Carlo, from the {start} in {steps} step{'s' * (steps > 1)})"]
        if not np.isnan(self.ais_log_z):
            agrees = {True: "agrees", False: "DOES NOT AGREE", None: "too noisy to be a check"}[self.estimates_agree]
            check = with_error(self.ais_log_z, self.ais_standard_error)
            lines.append(f"{check}  (annealed importance sampling: {agrees})")
        share = percent(self.blind_spot)
        return lines, f"a region with less than {share} of the mass of the {start} may hold none of the first particles"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class NestedEvidence(Evidence):
    """Estimate of log Z by nested sampling with elliptical slice updates, with statistics of the run.

    `log_z` is the estimate from the points of all replicates, as those of one run. `blind_spot` is a share of the prior
    mass that remains at the level of the log-likelihood where a region separates from the rest: at least 5 of the live
    points are in a region of this share with a probability of 0.95. It is about 9 divided by their number. `draws` are
    resampled from all points in proportion to prior mass times likelihood. The attributes of `Evidence` are not
    repeated here.

    Attributes
    ----------
    ideal_standard_error : float
        Standard error of log Z if live points were replaced one at a time by independent draws:
        sqrt(information / live_points). `standard_error` includes that replacements may be correlated, but it is itself
        uncertain for few replicates.
    live_points : int
        Number of live points of all replicates.
    updates : int
        Number of elliptical slice updates of each replacement of a live point.
    rank_p_value : float
        p-value of the test that replacements are independent draws, by their insertion ranks. Between 0 and 1.
    """

    ideal_standard_error: float
    live_points: int
    updates: int
    rank_p_value: float

    def _texts(self) -> tuple[list[str], str]:
        about = f"{self.live_points:,} live points, {self.updates} updates, p = {self.rank_p_value:.2g}"
        estimate = f"{with_error(self.log_z, self.standard_error)}  (nested sampling, {about})"
        where = "of the prior mass that remains where it separates from the rest"
        return [estimate], f"a region with less than {percent(self.blind_spot)} {where} may hold too few live points"

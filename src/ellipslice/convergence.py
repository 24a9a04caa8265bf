"""Check whether a run has converged. Users call `diagnostics.check_convergence`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ellipslice.approximations.sites import MAX_REFERENCE_SIZE
from ellipslice.moves import ReferenceSlice
from ellipslice.result_parts import as_numbers, not_judged, parts_of, unusable, varying

if TYPE_CHECKING:
    import xarray

MAX_RHAT = 1.01
"""R-hat must be below this (Vehtari et al. 2021)."""
MIN_ESS_PER_CHAIN = 100
"""Smallest effective sample size required, times the number of chains (Vehtari et al. 2021)."""
MIN_ESS_PER_UPDATE = 1 / 300
"""Effective samples per update below which the report states that the chains mix slowly."""
MIN_DRAWS = 4
"""Smallest number of draws per chain for ArviZ's estimators."""


@dataclass(frozen=True)
class ConvergenceProblem:
    """One finding about a run: a code for scripts, a sentence, and what to change."""

    code: str
    """One of the codes listed at `check_convergence`."""
    message: str
    """Description of the problem, one sentence."""
    advice: str = ""
    """Recommended change. Empty if there is none."""

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".rstrip()


@dataclass(frozen=True, repr=False)
class ConvergenceReport:
    """Result of `check_convergence`. It is true in an `if` exactly if the run has converged."""

    converged: bool
    """True if there are no problems."""
    problems: tuple[ConvergenceProblem, ...]
    """Why the run has not converged; empty if it has."""
    warnings: tuple[ConvergenceProblem, ...]
    """Other findings that matter for the use of the draws. They do not change `converged`."""
    chains: int
    """Number of chains."""
    draws: int
    """Number of draws per chain."""
    engine: str
    """Name of the engine that ran the chains."""
    effective_sample_size: float
    """Smallest effective sample size, bulk or tail, of the log-likelihood and all kept values; NaN if unknown."""
    effective_sample_size_of: str
    """Name and index of the quantity with the smallest effective sample size, for example "f[3]"."""
    rhat: float
    """Largest rank-normalised R-hat; NaN if unknown, for example with one chain."""
    rhat_of: str
    """Name and index of the quantity with the largest R-hat."""
    evaluations_per_update: float
    """Evaluations of the log-likelihood divided by updates, warm-up included."""
    not_judged: tuple[str, ...]
    """Names of variables with missing or infinite values, and of variables that are constant."""

    def __bool__(self) -> bool:
        return self.converged

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        codes = ", ".join(problem.code for problem in self.problems)
        return (
            f"ConvergenceReport(converged={self.converged}, problems=[{codes}], "
            f"effective_sample_size={self.effective_sample_size:.4g}, rhat={self.rhat:.4g}, "
            f"chains={self.chains}, draws={self.draws})"
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # IPython and notebooks display this text
        printer.text(str(self))

    def _lines(self) -> Iterator[str]:
        noun = "chain" if self.chains == 1 else "chains"
        yield "The run has converged." if self.converged else "The run has not converged."
        yield (
            f"{self.chains} {noun} of {self.draws:,} draws on the {self.engine} engine, "
            f"{self.evaluations_per_update:.1f} evaluations per update."
        )
        if not math.isnan(self.effective_sample_size):
            size, quantity = self.effective_sample_size, self.effective_sample_size_of
            yield f"Smallest effective sample size: {size:,.0f} ({quantity})."
        if not math.isnan(self.rhat):
            yield f"Largest R-hat: {_rhat_text(self.rhat)} ({self.rhat_of})."
        yield from map(str, self.problems)
        yield from map(str, self.warnings)


class _Measured(NamedTuple):
    """The smallest effective sample size and the largest R-hat, with the names of their quantities."""

    effective_sample_size: float = math.nan
    effective_sample_size_of: str = "none"
    rhat: float = math.nan
    rhat_of: str = "none"


def check_convergence(tree: xarray.DataTree) -> ConvergenceReport:
    """Check whether the chains of a run have converged.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `sample`, `resume` or `join`, or the `tree` of a `Fit`.

    Returns
    -------
    ConvergenceReport
        `converged` and `problems` are for scripts. `print` shows a report of a few lines: number of draws, smallest
        effective sample size, largest R-hat, evaluations per update and, if the run has not converged, what to change.

    Raises
    ------
    TypeError
        If `tree` is not an `xarray.DataTree`.
    ValueError
        If a group, variable or attribute of a result is missing, or if the run kept no latents (`keep=False`).

    Notes
    -----
    The check uses the log-likelihood and every kept value. A run has converged if R-hat (rank-normalised) is below 1.01
    and the effective sample size (the smaller of bulk and tail) is at least 100 per chain. Both estimators are ArviZ's,
    and the thresholds are those of Vehtari et al. (2021). With one chain there is no R-hat, and the effective sample
    size decides. Variables with missing or infinite values are not judged, and neither are constants.

    The codes of problems are "too_few_draws", "nothing_judged", "rhat", "effective_sample_size" and "slow_mixing". The
    codes of warnings are "interrupted", "one_chain", "not_judged", "nan_evaluations" and "failed_searches".

    Examples
    --------
    >>> import numpy as np, jax.numpy as jnp
    >>> import ellipslice as es
    >>> tree = es.sample(lambda f: -jnp.sum((f - 1.0) ** 2), es.Diagonal(np.ones(3)), draws=2000, seed=1)
    >>> report = es.diagnostics.check_convergence(tree)
    >>> report.converged, report.effective_sample_size > 400
    (True, True)
    >>> print(report)
    The run has converged.
    4 chains of 2,000 draws on the compiled engine, ... evaluations per update.
    Smallest effective sample size: ... (...).
    Largest R-hat: 1.00... (...).
    """
    latents, statistics = (as_numbers(group) for group in parts_of(tree))
    chains, draws, attrs = statistics.sizes["chain"], statistics.sizes["draw"], tree.attrs
    if not latents.data_vars:
        raise ValueError(
            "the run kept no latents (keep=False), but check_convergence needs some. Keep a few of them, for "
            "example with keep=lambda f: f[:10]. diagnostics.efficiency needs the log-likelihood only."
        )
    missing, constant = unusable(latents, statistics)
    measured = _Measured()
    if draws < MIN_DRAWS:
        message = f"{draws} draws per chain are too few to judge; at least {MIN_DRAWS} are needed."
        problems = [ConvergenceProblem("too_few_draws", message, "Run longer.")]
    else:
        measured = _measure(latents, statistics)
        elements = sum(values[0, 0].size for values in latents.data_vars.values())
        advice = _advice_for_slow_mixing(attrs, elements)
        problems = list(_problems(measured, chains, chains * draws * attrs["thin"], advice))
    return ConvergenceReport(
        converged=not problems,
        problems=tuple(problems),
        warnings=tuple(_warnings(attrs, chains, missing, constant)),
        chains=chains,
        draws=draws,
        engine=str(attrs["engine"]),
        evaluations_per_update=attrs["evaluations"] / max(1, attrs["updates"]),
        not_judged=(*missing, *constant),
        **measured._asdict(),
    )


def _problems(found: _Measured, chains: int, updates: int, advice_if_slow: str) -> Iterator[ConvergenceProblem]:
    """Yield the reasons why a run has not converged."""
    if math.isnan(found.effective_sample_size):
        yield ConvergenceProblem(
            "nothing_judged",
            "No quantity could be judged, because all are constant, missing or infinite.",
            "If the chains did not move, check the log-likelihood; otherwise keep quantities that vary.",
        )
        return
    if found.rhat >= MAX_RHAT:
        message = f"R-hat must be below {MAX_RHAT}, but that of {found.rhat_of} is {_rhat_text(found.rhat)}."
        advice = "Run longer, with more warm-up, and compare the trace plots of the chains."
        yield ConvergenceProblem("rhat", message, advice)
    enough = MIN_ESS_PER_CHAIN * chains
    converged = found.effective_sample_size >= enough and not found.rhat >= MAX_RHAT
    slow = not converged and found.effective_sample_size < MIN_ESS_PER_UPDATE * updates
    if found.effective_sample_size < enough:
        message = (
            f"The effective sample size must be at least {enough} ({MIN_ESS_PER_CHAIN} per chain), but that of "
            f"{found.effective_sample_size_of} is {found.effective_sample_size:,.0f}."
        )
        yield ConvergenceProblem("effective_sample_size", message, "" if slow else "Run longer.")
    if slow:
        message = f"The chains mix slowly: less than one effective sample in {1 / MIN_ESS_PER_UPDATE:.0f} updates."
        yield ConvergenceProblem("slow_mixing", message, advice_if_slow)


def _advice_for_slow_mixing(attrs: Mapping[Any, Any], elements: int) -> str:
    """Return advice for a run that mixes slowly. It contains only changes that `sample` accepts for this run."""
    move, prior = str(attrs.get("move", "")), str(attrs.get("prior", ""))
    longer = "Run many more updates, and store only every k-th of them with thin=k."
    if "reference" in attrs or f"{ReferenceSlice.__name__}(" in move:
        return f"The reference Gaussian approximates the posterior poorly. {longer}"
    rejected = "parameter_moves" in attrs or "TruncatedGaussian(" in prior or "FromDraws(" in prior
    if rejected or elements > MAX_REFERENCE_SIZE:  # `sample` rejects reference= for these
        return longer
    cause = "Usually the likelihood is much more informative than the prior"
    around = "sample around a Gaussian approximation of the posterior, with reference='auto'"
    if attrs["engine"] == "fused":
        around += " and engine='batched'"
    if move and not move.startswith("EllipticalSlice("):
        around += " and without move="
    if "Local(" in move or any(str(name).endswith("structure") for name in attrs):  # a `LatentGP` has such attributes
        return f"{cause}: {around}."
    return (
        f"{cause}: {around}. If instead the prior contains a constant with a large variance, make the constant its own "
        "latent in a Stack, and use the move Local('names')."
    )


def _warnings(
    attrs: Mapping[Any, Any], chains: int, missing: list[str], constant: list[str]
) -> Iterator[ConvergenceProblem]:
    """Yield findings that do not change `converged`."""
    if attrs["interrupted"]:
        yield ConvergenceProblem("interrupted", "The run was interrupted; these are the draws made until then.")
    if chains == 1:
        message = "R-hat needs at least 2 chains, so only the effective sample size was checked."
        yield ConvergenceProblem("one_chain", message)
    if missing:
        yield ConvergenceProblem("not_judged", not_judged(missing))
    if constant:
        are = "it is" if len(constant) == 1 else "they are"
        yield ConvergenceProblem("not_judged", f"Not judged, because {are} constant: {', '.join(constant)}.")
    if attrs["nan_evaluations"]:
        message = f"{attrs['nan_evaluations']:,} evaluations of the log-likelihood returned NaN and were rejected."
        yield ConvergenceProblem("nan_evaluations", message)
    if attrs["failed_searches"]:
        message = f"{attrs['failed_searches']:,} updates found no acceptable point and kept the state."
        yield ConvergenceProblem("failed_searches", message)


def _rhat_text(rhat: float) -> str:
    """Return R-hat as text. It is infinite if each chain is constant, and not all are equal."""
    return f"{rhat:.3f}" if rhat < 100 else "above 100"


# --- measures -------------------------------------------------------------------------------------------------------


def _measure(latents: xarray.Dataset, statistics: xarray.Dataset) -> _Measured:
    """Return the smallest effective sample size and the largest R-hat of all quantities that vary."""
    from arviz_stats import ess, rhat  # pyright: ignore[reportPrivateImportUsage]

    groups = [(values, varying(values)) for values in (latents, statistics)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # ArviZ divides by the variance, which is 0 for a constant
        sizes = [ess(values, method=method).where(varies) for values, varies in groups for method in ("bulk", "tail")]
        rhats = [rhat(values).where(varies) for values, varies in groups]
    (size_of, size), (rhat_of, worst) = _extreme(sizes, np.nanmin), _extreme(rhats, np.nanmax)
    return _Measured(size, size_of, worst, rhat_of)


def _extreme(measures: list[xarray.Dataset], pick: Callable[..., Any]) -> tuple[str, float]:
    """Return the name and index of the quantity with the smallest or largest measure, and the measure; ignore NaN."""
    found: list[tuple[float, str]] = []
    for measure in measures:
        for name, values in measure.data_vars.items():
            if not np.isnan(values.values).all():
                extreme = pick(values.values)
                index = np.argwhere(values.values == extreme)[0].tolist()
                found.append((float(extreme), f"{name}{index}" if index else str(name)))
    if not found:
        return "none", math.nan
    best = pick([value for value, _ in found])
    return next(name for value, name in found if value == best), float(best)

"""Check whether a run has converged. Users call `diagnostics.check_convergence`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.result_parts import as_numbers, not_judged, parts_of, unusable
from ellipslice.sampling.advice import advice_for_slow_mixing
from ellipslice.sampling.measures import (
    MIN_DRAWS,
    MIN_ESS_PER_CHAIN,
    Diagnostics,
    Limits,
    limits,
    measure,
    number_of_quantities,
)

if TYPE_CHECKING:
    import xarray

MIN_ESS_PER_UPDATE = 1 / 300
"""Effective samples per update below which the report states that the chains mix slowly."""


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
    The check uses the log-likelihood and every kept value. A run has converged if the smallest effective sample size
    (of bulk and of the 5 % and 95 % tails) is at least 100 per chain, as Vehtari et al. (2021) recommend, and the
    largest R-hat (rank-normalised) is below a limit. Both estimators are ArviZ's. The limit is the value that the
    largest R-hat of converged chains exceeds with a probability of at most 5 %, if each quantity has 100 effective
    samples per chain. It depends on the number of quantities: with four chains it is 1.02 for one, 1.04 for 100 and
    1.05 for 10,000. (The usual limit of 1.01 requires many more effective samples if there are many quantities.) With
    one chain there is no R-hat, and the effective sample size decides. Variables with missing or infinite values are
    not judged, and neither are constants.

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
    measured = Diagnostics()
    if draws < MIN_DRAWS:
        message = f"{draws} draws per chain are too few to judge; at least {MIN_DRAWS} are needed."
        problems = [ConvergenceProblem("too_few_draws", message, "Run longer.")]
    else:
        values = {**_arrays(latents), **_arrays(statistics)}
        measured = measure(values)
        elements = sum(values[0, 0].size for values in latents.data_vars.values())
        advice = advice_for_slow_mixing(attrs, elements)
        required = limits(chains, number_of_quantities(values))
        problems = list(_problems(measured, required, chains, chains * draws * attrs["thin"], advice))
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


def _arrays(group: xarray.Dataset) -> dict[str, np.ndarray]:
    """Return the variables of a group, shape (chains, draws, ...) each."""
    return {str(name): values.transpose("chain", "draw", ...).values for name, values in group.data_vars.items()}


def _problems(
    found: Diagnostics, required: Limits, chains: int, updates: int, advice_if_slow: str
) -> Iterator[ConvergenceProblem]:
    """Yield the reasons why a run has not converged."""
    if math.isnan(found.effective_sample_size):
        yield ConvergenceProblem(
            "nothing_judged",
            "No quantity could be judged, because all are constant, missing or infinite.",
            "If the chains did not move, check the log-likelihood; otherwise keep quantities that vary.",
        )
        return
    if found.rhat >= required.rhat:
        message = f"R-hat must be below {required.rhat:.3f}, but that of {found.rhat_of} is {_rhat_text(found.rhat)}."
        advice = "Run longer, with more warm-up, and compare the trace plots of the chains."
        yield ConvergenceProblem("rhat", message, advice)
    enough = required.effective_sample_size
    slow = not found.converged(required) and found.effective_sample_size < MIN_ESS_PER_UPDATE * updates
    if found.effective_sample_size < enough:
        message = (
            f"The effective sample size must be at least {enough:g} ({MIN_ESS_PER_CHAIN} per chain), but that of "
            f"{found.effective_sample_size_of} is {found.effective_sample_size:,.0f}."
        )
        yield ConvergenceProblem("effective_sample_size", message, "" if slow else "Run longer.")
    if slow:
        message = f"The chains mix slowly: less than one effective sample in {1 / MIN_ESS_PER_UPDATE:.0f} updates."
        yield ConvergenceProblem("slow_mixing", message, advice_if_slow)


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

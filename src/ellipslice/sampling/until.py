"""Stopping rules: run until goals are reached or a budget is spent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ellipslice.checks import number, whole_number
from ellipslice.sampling.keep import Kept
from ellipslice.sampling.measures import MIN_DRAWS, Diagnostics, measure
from ellipslice.sampling.traces import MAX_TRACE_DRAWS, Traces

FIRST_CHECK_DRAWS = 100
"""Number of draws of each chain at the first check of the goals."""

MAX_DRAWS = 100_000
"""Default of `Until.max_draws`."""


@dataclass(frozen=True)
class Until:
    """Stopping rule of a run: goals and budgets, for `sample(..., until=Until(effective_sample_size=400))`.

    The run stops when all goals are reached or the first budget is spent. The attribute `stopped_by` of the result
    records the reason: "goals", "draws", "seconds", or "memory" if there is no memory for more draws.

    Parameters
    ----------
    effective_sample_size : float, optional
        Goal: at least this effective sample size (ESS) of all chains, by the smaller of ArviZ's bulk and tail ESS.
        Above 0.
    rhat : float, optional
        Goal: at most this R-hat (rank-normalised). Above 1. Requires at least two chains.
    max_seconds : float, optional
        Budget: seconds since the call of `sample` or `resume`. Above 0. The run makes at least one draw per chain.
        Default: no limit.
    max_draws : int, optional
        Budget: number of draws of each chain. At least 1. Default: 100,000.

    Raises
    ------
    TypeError, ValueError
        If neither a goal nor a budget is given, or if a value is out of range.

    Notes
    -----
    The stopping rule uses the smallest ESS and the largest R-hat of the log-likelihood and of everything that is kept
    of each draw, like `diagnostics.check_convergence`. If there are more than about 4,000 draws of each chain, it uses
    every second of them, every fourth, and so on, so that the ESS is a lower bound.

    Goals are checked after 100 draws of each chain, and again whenever this number has grown by 20 to 100 %. The times
    of the checks depend only on the draws, so a seed gives the same number of draws unless `max_seconds` stops the run.

    ESS is an estimate, and the rule stops when the estimate happens to be high. Set a goal that is somewhat larger than
    the ESS you need.

    Examples
    --------
    >>> import numpy as np, jax.numpy as jnp
    >>> import ellipslice as es
    >>> goals = es.Until(effective_sample_size=400, rhat=1.05)
    >>> tree = es.sample(lambda f: -jnp.sum((f - 1.0) ** 2), es.Diagonal(np.ones(3)), until=goals, seed=1)
    >>> tree.attrs["stopped_by"], tree.attrs["effective_sample_size"] >= 400
    ('goals', True)
    """

    effective_sample_size: float | None = None
    rhat: float | None = None
    max_seconds: float | None = None
    max_draws: int | None = None

    def __post_init__(self) -> None:
        if all(value is None for value in asdict(self).values()):
            raise ValueError(
                "Until was given no goal and no budget. Give at least one, such as Until(effective_sample_size=400)."
            )
        for name, least in (("effective_sample_size", 0), ("rhat", 1), ("max_seconds", 0)):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, number(name, value, above=least))
        if self.max_draws is not None:
            object.__setattr__(self, "max_draws", whole_number("max_draws", self.max_draws, 1))

    @property
    def has_goals(self) -> bool:
        """True if `effective_sample_size` or `rhat` is given."""
        return self.effective_sample_size is not None or self.rhat is not None


def draw_limit(until: Until) -> int:
    """Return the largest number of draws of each chain."""
    return MAX_DRAWS if until.max_draws is None else until.max_draws


def check_goals(until: Until | None, chains: int, log_likelihood: Any, keep: Any) -> None:
    """Raise if a run with these arguments cannot reach its goals."""
    if until is None or not until.has_goals:
        return
    if until.rhat is not None and chains < 2:
        raise ValueError(f"the goal rhat={until.rhat:g} compares chains, but chains=1. Run at least 2 chains.")
    if log_likelihood is None and keep is False:
        raise ValueError(
            "until has goals, but there is nothing to measure them on: keep=False stores no draws, and without a "
            "log-likelihood its values are all 0. Store something, such as keep=lambda f: f[0]."
        )


def goals_met(until: Until, found: Diagnostics) -> bool:
    """Return whether there are goals and all are reached."""
    enough = until.effective_sample_size is None or found.effective_sample_size >= until.effective_sample_size
    return until.has_goals and enough and (until.rhat is None or found.rhat <= until.rhat)


class StoppingRule:
    """The goals and budgets of a run, checked on traces of a few quantities in bounded memory.

    Parameters
    ----------
    until : Until
    example : dict of arrays
        Stored values of one draw, with a leading axis of length 1.
    chains : int
        Number of chains.
    """

    def __init__(self, until: Until, example: Kept, chains: int):
        self.until, self.diagnostics = until, Diagnostics()
        self.missing: set[str] = set()
        """Names of variables that had missing or infinite values, which the goals ignore."""
        self.traces = Traces(
            example, chains, max(MAX_TRACE_DRAWS, int(4 * (until.effective_sample_size or 0) / chains))
        )

    def write(self, chains: slice, first: int, latents: Kept, statistics: Kept) -> None:
        """Record the monitored elements of some draws."""
        if self.until.has_goals:
            self.traces.write(chains, first, latents, statistics)
            self.missing |= {name for name, values in latents.items() if not np.isfinite(values).all()}

    def first_check(self) -> int:
        """Return the number of draws of each chain at the first check."""
        return min(FIRST_CHECK_DRAWS, draw_limit(self.until))

    def check(self, draws: int, values: Callable[[int, int], Kept]) -> bool:
        """Return whether the first `draws` of every chain reach the goals.

        `values(draws, step)` returns every `step`-th of these draws of all variables. All are measured only if the
        monitored elements reach the goals.
        """
        if self.until.has_goals and draws >= MIN_DRAWS:
            self.diagnostics = self.traces.measure(draws)
            if goals_met(self.until, self.diagnostics):
                self.diagnostics = measure(values(draws, self.traces.thinning))
        return goals_met(self.until, self.diagnostics)

    def describe_progress(self) -> str:
        """Return the diagnostics of the last check and the goals, as text."""
        until, parts = self.until, []
        if until.effective_sample_size is not None:
            parts.append(
                f"effective sample size {self.diagnostics.effective_sample_size:,.0f} (goal: "
                f"{until.effective_sample_size:,.0f})"
            )
        if until.rhat is not None:
            parts.append(f"R-hat {self.diagnostics.rhat:.3f} (goal: at most {until.rhat:g})")
        return " and ".join(parts)

    def next_check(self, draws: int) -> int:
        """Return the number of draws of each chain at the next check, extrapolated from the last one."""
        goal, size = self.until.effective_sample_size, self.diagnostics.effective_sample_size
        predicted = draws * goal / size if goal is not None and size > 0 else math.inf
        return min(draw_limit(self.until), math.ceil(min(max(predicted, 1.2 * draws), 2 * draws)))

"""Goals: run until the answer is good enough, or the budget is gone."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ellipslice.checks import number, whole_number
from ellipslice.sampling.keep import Kept
from ellipslice.sampling.traces import LENGTH, Found, Traces

FIRST_CHECK_DRAWS = 100
"""Number of draws of each chain at the first check of the goals."""

MAX_DRAWS = 100_000
"""Number of draws of each chain after which a run without another budget ends."""


@dataclass(frozen=True)
class Until:
    """What a run should reach, and what it may take: `until=Until(effective_sample_size=400, max_seconds=3600)`.

    The run ends when every goal is reached, or the first budget is gone; the result's attribute `stopped_by` says
    which: "goals", "draws" or "seconds". Goals are looked at when the number of draws has grown by a fifth or more,
    at numbers that depend on the draws alone: but for `max_seconds`, the same seed gives the same draws, and as many.

    Parameters
    ----------
    effective_sample_size : float, optional
        A goal: effective draws of all chains together, the smaller of ArviZ's bulk and tail sizes.
    rhat : float, optional
        A goal: the largest R-hat (rank-normalised). Needs two chains or more.
    max_seconds : float, optional
        A budget: from the call of `sample` on, and counted anew when a store is resumed.
    max_draws : int, optional
        A budget: draws of each chain; 100,000 unless given.

    Notes
    -----
    Judged are the log-likelihood and 16 of the latent values that are kept, evenly spaced: the worst of them counts. A
    run that ends at the first look that pleases is slightly too pleased: effective sample sizes are estimates, and it
    stops where one happens to be high. Ask for a little more than you need; `diagnostics.check_convergence` uses all
    values.

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
                "Until was given no goal and no budget. Give one, such as Until(effective_sample_size=400)."
            )
        for name, least in (("effective_sample_size", 0), ("rhat", 1), ("max_seconds", 0)):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, number(name, value, above=least))
        if self.max_draws is not None:
            object.__setattr__(self, "max_draws", whole_number("max_draws", self.max_draws, 1))

    @property
    def most(self) -> int:
        """Largest number of draws of each chain."""
        return MAX_DRAWS if self.max_draws is None else self.max_draws

    @property
    def has_goals(self) -> bool:
        """Whether there is something to look at."""
        return self.effective_sample_size is not None or self.rhat is not None


def check_goals(until: Until | None, chains: int, log_likelihood: Any, keep: Any) -> None:
    """Raise if a goal cannot be reached by a run of these arguments."""
    if until is None or not until.has_goals:
        return
    if until.rhat is not None and chains < 2:
        raise ValueError(f"the goal rhat={until.rhat:g} compares chains, but there is one. Run 2 or more.")
    if log_likelihood is None and keep is False:
        raise ValueError(
            "until has a goal for the draws, but there is nothing to measure it on: keep=False keeps no draws, and "
            "without a log-likelihood its values are all 0. Keep something, such as keep=lambda f: f[0]."
        )


def reached(until: Until, found: Found) -> bool:
    """Whether every goal is."""
    enough = until.effective_sample_size is None or found.effective_sample_size >= until.effective_sample_size
    return until.has_goals and enough and (until.rhat is None or found.rhat <= until.rhat)


class StoppingRule:
    """The goals and budgets of a run, checked on traces of a few quantities in bounded memory.

    Parameters
    ----------
    until : Until
    example : dict of arrays
        What is kept of one draw, with a leading axis.
    chains : int
    """

    def __init__(self, until: Until, example: Kept, chains: int):
        self.until, self.found = until, Found()
        self.missing: set[str] = set()
        """Names of what is kept that has had a value which is not finite."""
        self.traces = Traces(example, chains, max(LENGTH, int(4 * (until.effective_sample_size or 0) / chains)))

    def write(self, chains: slice, first: int, latents: Kept, statistics: Kept) -> None:
        """Take the monitored elements of some draws."""
        if self.until.has_goals:
            self.traces.write(chains, first, latents, statistics)
            self.missing |= {name for name, values in latents.items() if not np.isfinite(values).all()}

    def first_check(self) -> int:
        """Return the number of draws of each chain at the first check."""
        return min(FIRST_CHECK_DRAWS, self.until.most)

    def check(self, draws: int) -> bool:
        """Return whether the first `draws` of every chain reach the goals."""
        if self.until.has_goals and draws >= 4:
            self.found = self.traces.measure(draws)
        return reached(self.until, self.found)

    def describe_progress(self) -> str:
        """Return the diagnostics of the last check compared with the goals, in words."""
        until, parts = self.until, []
        if until.effective_sample_size is not None:
            parts.append(
                f"effective sample size {self.found.effective_sample_size:,.0f} of {until.effective_sample_size:,.0f}"
            )
        if until.rhat is not None:
            parts.append(f"R-hat {self.found.rhat:.3f}, which should be at most {until.rhat:g}")
        return " and ".join(parts)

    def next_check(self, draws: int) -> int:
        """Return the number of draws at the next check after one that failed, extrapolated from the last one."""
        goal, size = self.until.effective_sample_size, self.found.effective_sample_size
        hoped = draws * goal / size if goal is not None and size > 0 else math.inf
        return min(self.until.most, math.ceil(min(max(hoped, 1.2 * draws), 2 * draws)))

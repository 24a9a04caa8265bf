"""The length of a run without `draws` and `until`: it ends when it passes the convergence check.

Such a run returns 1,000 draws of each chain, however long it is. When they do not pass the check, the run is made about
twice as long: the first 200 draws become warm-up, every second one of the others is removed, and 600 more are made with
twice the thinning. The result is therefore that of a run with the final warm-up and thinning, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ellipslice.engines.base import RunSpec
from ellipslice.sampling.measures import Diagnostics, Limits, limits, measure, number_of_quantities

DRAWS = 1000
"""Draws of each chain of a run without `draws` and `until`."""

NEW_WARMUP = 200
"""Number of draws that become warm-up when the run is made longer."""

REMAINING = slice(NEW_WARMUP + 1, DRAWS, 2)
"""Draws that remain when the run is made longer."""

MAX_THINNING = 64
"""Largest thinning, relative to that of the start. With the default warm-up it limits a chain to 77,100 updates."""

SCREENED = 16
"""Number of elements of each variable that are measured first, because measuring all of them takes longer."""


class AutomaticLength:
    """The convergence check of a run, and its next length.

    Parameters
    ----------
    thin : int
        Thinning at the start of the run.
    """

    def __init__(self, thin: int):
        self.thin = thin
        self.diagnostics = Diagnostics()
        self.limits = Limits(np.nan, np.nan)

    def __repr__(self) -> str:
        return f"until converged, thin at most {MAX_THINNING * self.thin}"

    def check(self, values: Mapping[str, np.ndarray]) -> bool:
        """Return whether draws pass the convergence check of `diagnostics.check_convergence`.

        Parameters
        ----------
        values : mapping of str to array
            All kept variables and the log-likelihood, shape (chains, draws, ...) each.
        """
        chains = len(next(iter(values.values())))
        self.limits = limits(chains, number_of_quantities(values))
        for at_most in (SCREENED, None):
            self.diagnostics = measure(values, at_most)
            if not self.diagnostics.converged(self.limits):
                return False
        return True

    def longer(self, spec: RunSpec) -> RunSpec | None:
        """Return the specification of a run of about twice the length. None if it would exceed the budget."""
        if spec.thin >= MAX_THINNING * self.thin:
            return None
        return replace(spec, warmup=spec.warmup + NEW_WARMUP * spec.thin, thin=2 * spec.thin)

    def budget(self, spec: RunSpec) -> int:
        """Return the largest number of updates of each chain of a run that begins with `spec`."""
        following = self.longer(spec)
        return spec.updates(DRAWS) if following is None else self.budget(following)

"""The estimate of log Z by nested sampling: the number of updates is increased until the insertion ranks pass."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np

from ellipslice.marginal.arguments import EvidenceProblem
from ellipslice.marginal.blind_spot import NESTED_POINTS, smallest_share
from ellipslice.marginal.nested import NestedResult, batch_of, nested_sampling
from ellipslice.marginal.nested_sum import information, jackknife_error, log_masses, log_sum
from ellipslice.marginal.particle_runs import ParticleRuns
from ellipslice.marginal.result import NestedEvidence
from ellipslice.marginal.target import target_from_prior
from ellipslice.marginal.tempered import posterior_draws
from ellipslice.marginal.warnings import warn_if_nested_unreliable

FIRST_RUN = 3
"""Number of the first run of nested sampling. Runs 0 to 2 are those of the tempered method."""

FIRST_UPDATES, MAX_UPDATES = 4, 256
"""Number of updates of each replacement in the first run, and the largest number."""

MIN_P_VALUE = 0.05
"""Insertion ranks pass if their p-value is at least this."""

PASSES = 2
"""Number of successive runs whose ranks must pass.

With one, a run passed in which hardly any points were near a narrow spike, although it mixed slowly around it."""

GROUP = 125
"""Number of particles that a CPU moves in one call: half of the replacements of 1,000 live points, for two cores."""


class AcceptedRun(NamedTuple):
    """The run whose estimate is returned."""

    found: NestedResult
    number: int
    updates: int
    p_value: float
    passed: bool
    """Whether the insertion ranks of this run pass."""


class NestedRuns(ParticleRuns):
    """Runs of nested sampling, each with twice as many updates as the one before it."""

    def until_ranks_pass(self, live: int, replicates: int, budget: float) -> AcceptedRun:
        """Repeat the run with more updates until the insertion ranks of two successive runs pass. Return the last one.

        A run is not started if the total number of evaluations would exceed `budget`.
        """
        updates, passed, number = FIRST_UPDATES, 0, FIRST_RUN
        while True:
            before = self.cost.evaluations
            move, particles = self.begin(number, replicates * batch_of(live // replicates), live)
            found = nested_sampling(move, particles, replicates, updates, self.generator(number, 1), self.cost)
            p_value = found.ranks.p_value(live)
            passed = passed + 1 if p_value >= MIN_P_VALUE else 0
            enough = passed == PASSES or not len(found.ranks.rank)  # no ranks: all live points were equal
            next_cost = 2 * (self.cost.evaluations - before)
            if enough or updates >= MAX_UPDATES or self.cost.evaluations + next_cost > budget:
                return AcceptedRun(found, number, updates, p_value, passed > 0)
            updates, number = 2 * updates, number + 1


def nested_evidence(problem: EvidenceProblem, budget: float = math.inf) -> NestedEvidence:
    """Estimate log Z by nested sampling, and warn about everything that makes the estimate unreliable."""
    began = time.perf_counter()
    posterior, engine, seed, live, replicates = problem
    runs = NestedRuns(target_from_prior(posterior, engine), seed, GROUP)
    run = runs.until_ranks_pass(live, replicates, budget)
    points, rows = run.found.points, run.found.rows
    own = [log_sum(points.select(points.replicate == replicate)) for replicate in range(replicates)]
    log_weights = (log_masses(points) + points.log_likelihood)[rows]
    mixed = runs.generator(run.number, 2).permutation(len(rows))  # the points are in the order of their removal
    result = NestedEvidence(
        log_z=log_sum(points),
        standard_error=jackknife_error(points),
        replicate_log_z=np.array(own),
        blind_spot=smallest_share(live, NESTED_POINTS),
        draws=posterior_draws(
            posterior, runs.target, run.found.f[mixed], log_weights[mixed], runs.generator(run.number, 3), count=live
        ),
        information=(found := information(points)),
        ideal_standard_error=math.sqrt(max(found, 0.0) / live),
        live_points=live,
        updates=run.updates,
        rank_p_value=run.p_value,
        evaluations=runs.cost.evaluations,
        nan_evaluations=runs.cost.nan_evaluations,
        failed_searches=runs.cost.failed_searches,
        engine=runs.target.engine,
        seed=seed,
        seconds=time.perf_counter() - began,
    )
    warn_if_nested_unreliable(runs.cost, result, run.passed)
    return result

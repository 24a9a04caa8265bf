"""The start of a run: its move, its engine, and the run before its first update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ellipslice.engines.base import Engine, Run, RunSpec
from ellipslice.engines.choose import choose_engine, with_workers
from ellipslice.engines.rows import statistics_of
from ellipslice.engines.workers.pool import Workers
from ellipslice.moves import Move
from ellipslice.posterior import Posterior
from ellipslice.sampling.automatic_move import choose_automatic_move, why_plain_ellipses
from ellipslice.sampling.drive import Plan, snapshot
from ellipslice.sampling.likelihood_checks import check_concave, warn_if_not_deterministic, warn_if_prior_counted_twice
from ellipslice.sampling.reference_move import ReferenceMove, fit_reference_move
from ellipslice.sampling.result import empty_tree, import_in_background
from ellipslice.sampling.sinks import Collector, MemorySink, RunSink
from ellipslice.store.create import create
from ellipslice.store.stored_run import StoredRun
from ellipslice.truncated_posterior import TruncatedPosterior


def fitted_move(
    posterior: Posterior,
    spec: RunSpec,
    given: Move | None,
    reference: Any,
    engine: str | None,
    workers: Workers | None,
    log_concave: bool,
    progress: bool,
) -> ReferenceMove | None:
    """Return the move of a run with `reference=`, or without `move=`. None if the move is given."""
    if reference is not None:
        return fit_reference_move(reference, posterior, spec, engine, workers, log_concave)
    if given is not None or isinstance(posterior, TruncatedPosterior):
        return None
    why_plain = why_plain_ellipses(posterior, spec, engine)
    return choose_automatic_move(posterior, spec, engine, workers is not None, log_concave, progress, why_plain)


def engine_of_run(
    posterior: Posterior,
    spec: RunSpec,
    name: str | None,
    f: np.ndarray,
    workers: Workers | None,
    fitted: ReferenceMove | None,
    log_concave: bool,
) -> tuple[Engine, str]:
    """Return the engine of a run and the reason for it. Raise if it cannot make the run, before workers are used."""
    engine, why = choose_engine(posterior, name, f, spec.move, spec.precision == "double", workers)
    if fitted is not None and fitted.prepared is not None:
        engine.cache_prepared(spec.move, fitted.prepared)
    engine.check(spec, by_workers=workers is not None)
    if engine.traced and workers is None:  # others may fork, which is unsafe during an import
        import_in_background()
    if log_concave:
        check_concave(engine)
    return with_workers(engine, workers, f, spec), why


def start_run(
    plan: Plan,
    collector: Collector,
    path: Path | None,
    stored: StoredRun,
    dims: Mapping[str, Sequence[str]] | None,
    coords: Mapping[str, Any] | None,
) -> tuple[Run, RunSink]:
    """Return the run before its first update, and the sink of its draws. If this raises, no store is left behind."""
    form = collector.keep.example, statistics_of(plan.spec.move), plan.spec.chains
    memory = MemorySink(*form, plan.attributes, dims, coords)
    if path is None:  # first of all, so that too many draws raise before the log-likelihood is examined
        memory.reserve(plan.next_check or plan.draws)
    first = collector.resume_points[0].state
    warn_if_not_deterministic(first.log_likelihood, plan.engine.evaluate(first.f), "a second time")
    warn_if_prior_counted_twice(plan.engine)
    plan.engine.of_block = collector.keep.of_block
    run = plan.engine.run(plan.spec, collector.resume_points, plan.updates)
    if path is None:
        return run, memory
    try:
        skeleton = empty_tree(*form, dims, coords, plan.attributes)
        return run, create(path, *stored.write(), skeleton, snapshot(plan, collector))
    except BaseException:
        run.close()
        raise

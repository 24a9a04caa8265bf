"""Advance the chains of a run until it ends, for `sample` and `resume`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.engines.base import Engine, Run, RunSpec
from ellipslice.engines.workers.pool import WorkersLostError
from ellipslice.sampling.automatic_length import REMAINING, AutomaticLength
from ellipslice.sampling.forecast import Forecast
from ellipslice.sampling.interrupt import defer_interrupt, recheck_interrupt
from ellipslice.sampling.progress import RunProgress, RunSize, Show, progress_bar
from ellipslice.sampling.report import progress_attributes, warn_of_trouble
from ellipslice.sampling.sinks import Collector, RunSink
from ellipslice.sampling.traces import Traces
from ellipslice.sampling.until import StoppingRule
from ellipslice.store.journal import Snapshot

if TYPE_CHECKING:
    import xarray


@dataclass
class Plan:
    """Plan of a run: engine, specification, number of draws or stopping rule; and the reason why the run ended."""

    engine: Engine
    spec: RunSpec
    draws: int
    """Largest number of draws of each chain."""
    rule: StoppingRule | None
    next_check: int | None
    """Number of draws of each chain at the next check of the stopping rule; None without a rule."""
    attributes: dict[str, Any]
    """Attributes of the result that are known before the run."""
    began: float
    """Time at which the user's call began, by `time.perf_counter`."""
    automatic: AutomaticLength | None = None
    """The length of a run without `draws` and `until`; None if one of them is given."""
    earlier: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of the run at the end of an earlier process; empty for a new run."""
    stopped_by: str = field(default="running", init=False)
    """Reason why the run ended: "draws", "goals", "seconds", "memory", "converged", "budget" or "interrupt"."""

    @property
    def updates(self) -> int:
        """Number of updates of each chain until the next check."""
        return self.spec.updates(self.draws if self.next_check is None else self.next_check)

    @property
    def resume_state(self) -> dict[str, Any]:
        """Part of the plan that a store contains."""
        until = None if self.rule is None else asdict(self.rule.until)
        thin = None if self.automatic is None else self.automatic.thin
        # "look" is the key of format 2.
        return {"draws": self.draws, "until": until, "look": self.next_check, "automatic": thin}

    def lengthen(self, spec: RunSpec) -> None:
        """Replace the specification by one with more warm-up and thinning."""
        self.spec = spec
        self.attributes |= {"warmup": spec.warmup, "thin": spec.thin}


def snapshot(plan: Plan, collector: Collector) -> Snapshot:
    """Return the current state of a run."""
    attributes = progress_attributes(plan, collector)
    return Snapshot(collector.draws_done, collector.resume_points, attributes, plan.resume_state)


def drive(plan: Plan, collector: Collector, sink: RunSink, run: Run, progress: bool) -> xarray.DataTree:
    """Advance a run until draws, goals, time, memory or Ctrl-C end it. Return the result.

    Parameters
    ----------
    plan : Plan
    collector : Collector
        Its sinks are set here.
    sink : RunSink
        Memory or store.
    run : Run
        Run before its first update.
    progress : bool
        Show a progress bar.
    """
    return _RunDriver(plan, collector, sink, run).run(progress)


class _RunDriver:
    """A run in progress: its plan, its chains, and the sink of its draws."""

    def __init__(self, plan: Plan, collector: Collector, sink: RunSink, run: Run):
        self._plan, self._collector, self._sink, self._run = plan, collector, sink, run
        self._shown: Traces | None = None
        collector.sinks = [sink] if plan.rule is None else [sink, plan.rule]

    def run(self, progress: bool) -> xarray.DataTree:
        """Advance the run to its end. Return the result."""
        plan = self._plan
        forecast = Forecast(plan.automatic) if progress and plan.automatic is not None else None
        with self._checkpoint_on_error():
            with (
                progress_bar(progress, plan.engine.traced, self._size, self._traces) as show,
                recheck_interrupt() as check,
            ):
                self._advance(show if forecast is None else forecast.after(show, self._plan), check)
            if plan.stopped_by == "interrupt" and not self._collector.draws:
                updates, hint = self._collector.counts.updates, self._sink.how_to_resume
                raise KeyboardInterrupt(
                    f"interrupted during warm-up, after {updates:,} updates: no draw to return. {hint}".rstrip()
                )
            with defer_interrupt():
                self._commit()
                self._sink.close()
        # At the end, because filters may turn a warning into an error.
        warn_of_trouble(plan, self._collector, self._sink.how_to_resume)
        return self._sink.tree(self._snapshot())

    def _size(self) -> RunSize:
        plan, spec = self._plan, self._plan.spec
        return RunSize(len(spec.chains), plan.draws, spec.warmup, spec.thin)

    def _snapshot(self) -> Snapshot:
        return snapshot(self._plan, self._collector)

    def _commit(self) -> None:
        self._sink.commit(self._snapshot())

    def _traces(self) -> Traces:
        """Return the traces whose diagnostics the progress bar shows: those of the stopping rule, if it has goals."""
        rule, collector = self._plan.rule, self._collector
        if rule is not None and rule.until.has_goals:
            return rule.traces
        traces = Traces(collector.keep.example, len(collector.draws_done), start=max(collector.draws_done))
        collector.sinks = [*collector.sinks, traces]
        self._shown = traces
        return traces

    def _advance(self, show: Show, check: Callable[[], None]) -> None:
        """Advance the run until something ends it. `check` raises KeyboardInterrupt if a Ctrl-C was lost."""
        plan = self._plan
        limit = np.inf if plan.rule is None or plan.rule.until.max_seconds is None else plan.rule.until.max_seconds
        try:
            while not (self._run.finished and self._is_finished()):
                if time.perf_counter() - plan.began > limit and self._collector.draws:
                    plan.stopped_by = "seconds"
                    break
                self._run.advance()
                check()
                with defer_interrupt():
                    self._collect(show)
                    if self._sink.commit_due:
                        self._commit()
        except KeyboardInterrupt:
            self._run.close()
            with defer_interrupt():
                self._collect(show)
                plan.stopped_by = "interrupt"
        except WorkersLostError as error:
            self._attach_draws(error)
            raise
        finally:
            self._run.close()

    def _collect(self, show: Show) -> None:
        """Hand the new rows to the sinks, and update the progress bar."""
        collector = self._collector
        for rows in self._run.take():
            collector.add(rows)
        counts = collector.counts
        show(
            RunProgress(
                sum(collector.draws_done), collector.draws, counts.updates, counts.evaluations, counts.nan_evaluations
            )
        )

    def _is_finished(self) -> bool:
        """Return True if the run ends now that all chains have made their updates. Otherwise extend it."""
        plan = self._plan
        if plan.automatic is not None:
            return self._is_long_enough(plan.automatic)
        if plan.rule is None or plan.next_check is None:
            plan.stopped_by = "draws"
            return True
        if plan.rule.check(plan.next_check, self._sink.values):
            plan.stopped_by = "goals"
            return True
        if plan.next_check >= plan.draws:
            plan.stopped_by = "draws"
            return True
        following = plan.rule.next_check(plan.next_check)
        try:
            self._sink.reserve(following)
        except MemoryError:
            plan.stopped_by = "memory"
            return True
        plan.next_check = following
        self._run.extend(plan.updates)
        return False

    def _is_long_enough(self, length: AutomaticLength) -> bool:
        """Return True if the run has converged or has spent its budget. Otherwise make it longer."""
        plan, collector = self._plan, self._collector
        if length.check(self._sink.values(plan.draws)):
            plan.stopped_by = "converged"
            return True
        spec = length.longer(plan.spec)
        if spec is None:
            plan.stopped_by = "budget"
            return True
        self._run.close()
        with defer_interrupt():
            plan.lengthen(spec)
            collector.draws_done = [len(range(plan.draws)[REMAINING])] * len(spec.chains)
            self._sink.select(REMAINING, spec, self._snapshot())
            if self._shown is not None:
                self._shown.select(REMAINING)
        self._run = plan.engine.run(spec, collector.resume_points, plan.updates)
        return False

    def _attach_draws(self, error: WorkersLostError) -> None:
        """Attach the draws to the exception, if there is no store."""
        draws = self._collector.draws
        if draws and not self._sink.how_to_resume:
            error.tree = self._sink.tree(self._snapshot())
            error.add_note(
                f"{draws:,} draws of each chain were made before. They are in the attribute `tree` of this exception. "
                "With store= a run can be resumed."
            )

    @contextlib.contextmanager
    def _checkpoint_on_error(self) -> Iterator[None]:
        """Write a checkpoint if an exception ends the run, and add to the exception how to resume."""
        try:
            yield
        except BaseException as error:
            try:
                with contextlib.suppress(OSError):  # the disk may be full
                    self._commit()
            finally:
                self._sink.close(tidy=False)
            hint = self._sink.how_to_resume
            if hint and not isinstance(error, KeyboardInterrupt):
                error.add_note(f"{self._sink.draws_committed:,} draws of each chain are in the store. {hint}")
            raise

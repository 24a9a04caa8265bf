"""A run from where its chains are to where it ends: what `sample` and `resume` share."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.checks import warn
from ellipslice.engines.base import Engine, Run
from ellipslice.engines.workers.pool import WorkersLostError
from ellipslice.result_parts import not_judged
from ellipslice.sampling.interrupt import deferred, listening
from ellipslice.sampling.likelihood_checks import warn_if_not_deterministic
from ellipslice.sampling.progress import Now, Show, Size, progress_bar
from ellipslice.sampling.result import build_tree
from ellipslice.sampling.sinks import Memory, Record
from ellipslice.sampling.traces import Traces
from ellipslice.sampling.until import Judge
from ellipslice.store.read import open_tree
from ellipslice.store.store import Store
from ellipslice.store.stored_run import Setup
from ellipslice.undocumented.registry import taken

if TYPE_CHECKING:
    import xarray


@dataclass
class Session:
    """Chains, how far they should go, and where their draws go."""

    engine: Engine
    setup: Setup
    draws: int
    """Of each chain, at most."""
    record: Record
    home: Memory | Store
    judge: Judge | None
    """Of goals, if there are any."""
    look: int | None
    """Draws of each chain at the next look at them."""
    attributes: dict[str, Any]
    """What the result says, and is known before the run."""
    began: float
    dims: Mapping[str, Sequence[str]] | None = None
    coords: Mapping[str, Any] | None = None
    spent: float = 0.0
    """Seconds that went into it before."""
    stopped_by: str = field(default="running", init=False)
    _run: Run | None = field(default=None, init=False)

    def set_out(self) -> Run:
        """Prepare the run, so that what cannot run is refused before a store is made."""
        setup = self.setup
        done = [checkpoint.updates for checkpoint in self.record.checkpoints]
        self._run = self.engine.run(
            setup.move,
            setup.seed,
            setup.chains,
            [checkpoint.state for checkpoint in self.record.checkpoints],
            self._updates,
            setup.look_ahead,
            setup.warmup,
            setup.thin,
            done if any(done) else None,
        )
        return self._run

    @contextlib.contextmanager
    def closed_if_raised(self) -> Iterator[None]:
        """Release what the prepared run holds if it cannot begin after all."""
        try:
            yield
        except BaseException:
            if self._run is not None:
                self._run.close()
            raise

    def go(self, progress: bool) -> xarray.DataTree:
        """Run the chains; the draws."""
        record, setup = self.record, self.setup
        record.takers = [self.home] if self.judge is None else [self.home, self.judge]
        with self._kept_for_later():
            run = self._run or self.set_out()
            size = Size(len(setup.chains), self.draws, setup.warmup, setup.thin)
            with progress_bar(progress, self.engine.name, size, self._watch) as show, listening() as check:
                self._drive(run, show, check)
            if self.stopped_by == "interrupt" and not record.draws:
                hint = f" {self._how_to_go_on}" if isinstance(self.home, Store) else ""
                raise KeyboardInterrupt(
                    f"stopped during warm-up, after {record.counts.updates:,} updates: no draw to return.{hint}"
                )
            with deferred():
                self._commit()
                if isinstance(self.home, Store):
                    self.home.close()
        self._warn_of_trouble()  # after it: a warning may be made an error
        return self._result()

    @property
    def told(self) -> dict[str, Any]:
        """What the result says besides, as far as it is known by now."""
        counts = self.record.counts
        told = {
            "draws": self.record.draws,
            "updates": counts.updates,
            "evaluations": counts.evaluations,
            "proposals": counts.proposals,
            "nan_evaluations": counts.nans,
            "stuck_updates": counts.stuck,
            "interrupted": int(self.stopped_by == "interrupt"),
            "stopped_by": self.stopped_by,
            "sampling_time": self.spent + time.perf_counter() - self.began,
        }
        before = self.home.journal["attributes"].get("degraded", "") if isinstance(self.home, Store) else ""
        if fallbacks := {*filter(None, before.split("; ")), *taken(self.began)}:
            told["degraded"] = "; ".join(sorted(fallbacks))
        if "reference" in self.attributes:
            told["reference_first_accepted"] = counts.first_accepted / max(1, counts.updates)
        if self.judge is not None:
            told["goals"] = repr(self.judge.until)
            found = self.judge.found._asdict()
            told |= {name: value for name, value in found.items() if np.isfinite(value)}
        return told

    @property
    def plans(self) -> dict[str, Any]:
        """What a store must know to go on."""
        until = None if self.judge is None else asdict(self.judge.until)
        return {"draws": self.draws, "until": until, "look": self.look}

    @property
    def _updates(self) -> int:
        """Of each chain, until the next look at them."""
        return self.setup.warmup + (self.draws if self.look is None else self.look) * self.setup.thin

    @property
    def _how_to_go_on(self) -> str:
        path = self.home.path if isinstance(self.home, Store) else None
        return f"The store keeps what is there: ellipslice.resume({str(path)!r}, log_likelihood) goes on."

    def _watch(self) -> Traces:
        """Traces for the progress bar to judge; those of the goals, if there are any."""
        if self.judge is not None and self.judge.until.has_goals:
            return self.judge.traces
        traces = Traces(self.record.example, len(self.setup.chains), start=max(self.record.complete))
        self.record.takers = [*self.record.takers, traces]
        return traces

    def _drive(self, run: Run, show: Show, check: Callable[[], None]) -> None:
        """Advance the run until something ends it; `check` is for Ctrl-C."""
        limit = np.inf if self.judge is None or self.judge.until.seconds is None else self.judge.until.seconds

        def collect() -> None:
            for piece in run.take():
                self.record.add(piece)
            counts = self.record.counts
            show(Now(self.record.total, self.record.draws, counts.updates, counts.evaluations, counts.nans))

        try:
            while True:
                if run.finished and self._is_enough(run):
                    return
                if time.perf_counter() - self.began > limit and self.record.draws:
                    self.stopped_by = "seconds"
                    return
                run.advance()
                check()
                with deferred():
                    collect()
                    if isinstance(self.home, Store) and self.home.due:
                        self._commit()
        except KeyboardInterrupt:
            run.close()
            with deferred():
                collect()
                self.stopped_by = "interrupt"
        except WorkersLostError as error:
            if isinstance(self.home, Memory) and self.record.draws:
                error.tree = self._result()
                error.add_note(
                    f"{self.record.draws:,} draws of each chain were made before: they are this exception's `tree`. "
                    "With store= a run can go on from there."
                )
            raise
        finally:
            run.close()

    def _is_enough(self, run: Run) -> bool:
        """Whether chains that have made all the draws they were asked for can end; else they are asked for more."""
        if self.judge is None or self.look is None:
            self.stopped_by = "draws"
        elif self.judge.look(self.look):
            self.stopped_by = "goals"
        elif self.look >= self.draws:
            self.stopped_by = "draws"
        else:
            following = self.judge.next_look(self.look)
            try:
                if isinstance(self.home, Memory):
                    self.home.reserve(following)
            except MemoryError:
                self.stopped_by = "memory"
                return True
            self.look = following
            run.extend(self._updates)
            return False
        return True

    @contextlib.contextmanager
    def _kept_for_later(self) -> Iterator[None]:
        """Whatever happens to a run with a store: what is there can be gone on with, and the error says so."""
        if not isinstance(self.home, Store):
            yield
            return
        try:
            yield
        except BaseException as error:
            try:
                with contextlib.suppress(OSError):  # it may be the disk that is full
                    self._commit()
            finally:
                self.home.close(tidy=False)
            if not isinstance(error, KeyboardInterrupt):
                error.add_note(f"{min(self.home.complete):,} draws of each chain are safe. {self._how_to_go_on}")
            raise

    def _commit(self) -> None:
        if isinstance(self.home, Store):
            self.home.commit(self.record, self.told, self.plans)

    def _warn_of_trouble(self) -> None:
        """Say at the end what a user must know before using the draws."""
        record, counts = self.record, self.record.counts
        if self.stopped_by == "interrupt":
            hint = f" {self._how_to_go_on}" if isinstance(self.home, Store) else ""
            warn(f"stopped by Ctrl-C: returning {record.draws:,} of {self.draws:,} draws per chain.{hint}")
        if self.judge is not None and self.judge.until.has_goals and self.stopped_by in ("draws", "seconds", "memory"):
            last = f": at the last look, {self.judge.says()}" if record.draws >= 4 else ""
            gone = {"memory": "there is no memory for more"}.get(self.stopped_by, "the budget is gone")
            warn(f"{gone} after {record.draws:,} draws per chain, and the goals are not reached{last}.")
        if self.judge is not None and self.judge.missing and self.stopped_by == "goals":
            warn(f"the goals are reached by the other values only. {not_judged(sorted(self.judge.missing))}")
        if counts.nans:
            warn(
                f"{counts.nans:,} of {counts.evaluations:,} log-likelihood evaluations gave NaN. Those points "
                "were rejected, as if the likelihood were zero there; if it should not be, look for the log of a "
                "negative number or inf - inf."
            )
        if counts.stuck:
            warn(
                f"{counts.stuck:,} of {counts.updates:,} updates found no acceptable point and stayed where they "
                "were. That is rounding if it is rare; otherwise the log-likelihood is not a function of f alone, or "
                "has isolated spikes."
            )
        try:
            rounding = 1e-7 if self.engine.dtype == np.float64 else 1e-3
            again = self.engine.evaluate_all([state.f for state in record.last])
            for state, after in zip(record.last, again, strict=True):
                if warn_if_not_deterministic(state.log_likelihood, after, "at the end of the run", rounding):
                    break
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the draws are made, and must not be lost now
            warn(f"a last look at the log-likelihood, to see whether it is still the same, failed with {error!r}.")

    def _result(self) -> xarray.DataTree:
        if isinstance(self.home, Store):
            return open_tree(self.home.path)
        kept = self.home.latents, self.home.statistics
        attrs = self.attributes | self.told
        return build_tree(*kept, self.record.draws, self.setup.chains, self.dims, self.coords, attrs)

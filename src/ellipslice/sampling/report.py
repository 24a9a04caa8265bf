"""Attributes of the result, and warnings at the end of a run."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ellipslice.checks import warn
from ellipslice.likelihoods import Likelihood
from ellipslice.machine import version
from ellipslice.moves import ReferenceSlice
from ellipslice.result_parts import not_judged
from ellipslice.sampling.advice import advice_for_slow_mixing
from ellipslice.sampling.likelihood_checks import warn_if_not_deterministic
from ellipslice.sampling.measures import Diagnostics
from ellipslice.store.fingerprint import fingerprint
from ellipslice.store.serial import write
from ellipslice.store.stored_run import StoredRun
from ellipslice.undocumented.registry import taken

if TYPE_CHECKING:
    from ellipslice.sampling.automatic_length import AutomaticLength
    from ellipslice.sampling.drive import Plan
    from ellipslice.sampling.reference_move import ReferenceMove
    from ellipslice.sampling.sinks import Collector


def first_attributes(stored: StoredRun, log_likelihood: Any, why: str, fitted: ReferenceMove | None) -> dict[str, Any]:
    """Return the attributes that are known before the run. `why` is the reason for the choice of the engine."""
    spec = stored.spec
    return {
        "ellipslice_version": version("ellipslice"),
        "jax_version": jax.__version__,
        "numpy_version": np.__version__,
        "seed": spec.seed if spec.seed < 2**63 else str(spec.seed),  # attributes of a file are 64-bit integers
        "prior": repr(stored.prior),
        "likelihood": getattr(log_likelihood, "__qualname__", None) or repr(log_likelihood),
        "move": repr(spec.move),
        "fingerprint": _fingerprint(stored, log_likelihood, fitted is not None and fitted.method is not None),
        **({} if fitted is None else {"move_reason": fitted.reason}),
        **({} if fitted is None or fitted.method is None else {"reference": fitted.method}),
        "engine": stored.engine,
        "engine_reason": why,
        "precision": spec.precision,
        "warmup": spec.warmup,
        "thin": spec.thin,
        "chains": len(spec.chains),
        "created_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def _fingerprint(stored: StoredRun, log_likelihood: Any, fitted: bool) -> str:
    """Return the fingerprint by which `join` recognises different objects of the same name.

    A move with a fitted reference is left out, because pilot runs on different machines give different fits.
    """
    items = {"prior": stored.prior, "keep": stored.keep}
    if isinstance(log_likelihood, Likelihood):
        items["likelihood"] = log_likelihood
    if not fitted and write(stored.spec.move).complete:
        items["move"] = stored.spec.move
    return fingerprint(**items)


def progress_attributes(plan: Plan, collector: Collector) -> dict[str, Any]:
    """Return the current values of the attributes that change during a run."""
    counts = collector.counts
    attributes = {
        "draws": collector.draws,
        "updates": counts.updates,
        "evaluations": counts.evaluations,
        "proposals": counts.proposals,
        "nan_evaluations": counts.nan_evaluations,
        "failed_searches": counts.failed_searches,
        "interrupted": int(plan.stopped_by == "interrupt"),
        "stopped_by": plan.stopped_by,
        "sampling_time": plan.earlier.get("sampling_time", 0.0) + time.perf_counter() - plan.began,
    }
    before = plan.earlier.get("degraded", "").split("; ")
    if fallbacks := {*filter(None, before), *taken(plan.began)}:
        attributes["degraded"] = "; ".join(sorted(fallbacks))
    if "reference" in plan.attributes and isinstance(plan.spec.move, ReferenceSlice):
        attributes["first_proposal_acceptance_rate"] = counts.first_accepted / max(1, counts.updates)
    if plan.rule is not None:
        attributes["stopping_rule"] = repr(plan.rule.until)
        attributes |= _finite(plan.rule.diagnostics)
    elif plan.automatic is not None:
        attributes["stopping_rule"] = repr(plan.automatic)
        attributes |= _finite(plan.automatic.diagnostics)
    return attributes


def _finite(found: Diagnostics) -> dict[str, float]:
    """Return the diagnostics that are known."""
    measures = {"effective_sample_size": found.effective_sample_size, "rhat": found.rhat}
    return {name: value for name, value in measures.items() if np.isfinite(value)}


def warn_of_trouble(plan: Plan, collector: Collector, how_to_resume: str) -> None:
    """Warn of an early end, NaN, failed searches, and a log-likelihood that is not deterministic."""
    _warn_of_early_end(plan, collector.draws, how_to_resume)
    counts = collector.counts
    if counts.nan_evaluations:
        warn(
            f"{counts.nan_evaluations:,} of {counts.evaluations:,} log-likelihood evaluations gave NaN. These "
            "proposals were rejected, as if the likelihood were zero there. If it is not zero there, check for the log "
            "of a negative number or inf - inf."
        )
    if counts.failed_searches:
        warn(
            f"{counts.failed_searches:,} of {counts.updates:,} updates found no acceptable point and kept the old "
            "state. A few are due to rounding error. If there are many, the log-likelihood is not a function of f "
            "alone, or it has isolated spikes."
        )
    _warn_if_likelihood_changed(plan, collector)


def _warn_of_early_end(plan: Plan, draws: int, how_to_resume: str) -> None:
    """Warn if the run was interrupted, or ended without reaching its goals."""
    rule, stopped_by = plan.rule, plan.stopped_by
    if stopped_by == "interrupt":
        warn(f"stopped by Ctrl-C: returning {draws:,} of {plan.draws:,} draws per chain. {how_to_resume}".rstrip())
    if stopped_by == "budget" and plan.automatic is not None:
        _warn_of_budget(plan, plan.automatic)
    if rule is not None and rule.until.has_goals and stopped_by in ("draws", "seconds", "memory"):
        last = f" At the last check: {rule.describe_progress()}." if draws >= 4 else ""
        reason = "there is no memory for more draws" if stopped_by == "memory" else "the budget is spent"
        warn(f"the run stopped after {draws:,} draws per chain, because {reason}. Its goals are not reached.{last}")
    if rule is not None and rule.missing and stopped_by == "goals":
        warn(f"only the other variables reach the goals. {not_judged(sorted(rule.missing))}")


def _warn_of_budget(plan: Plan, length: AutomaticLength) -> None:
    """Warn that a run without `draws` and `until` has spent its budget, and state what to do."""
    found, required = length.diagnostics, length.limits
    reasons = []
    if not found.effective_sample_size >= required.effective_sample_size:
        reasons.append(
            f"the effective sample size of {found.effective_sample_size_of} is {found.effective_sample_size:,.0f} and "
            f"must be at least {required.effective_sample_size:g}"
        )
    if found.rhat >= required.rhat:
        reasons.append(f"R-hat of {found.rhat_of} is {found.rhat:.3f} and must be below {required.rhat:.3f}")
    warn(
        f"the run has not converged after {plan.updates:,} updates of each chain: {' and '.join(reasons)}. "
        f"{advice_for_slow_mixing(plan.attributes, plan.engine.posterior.prior.size)}"
    )


def _warn_if_likelihood_changed(plan: Plan, collector: Collector) -> None:
    """Evaluate the log-likelihood again at the last states, and warn if its values differ."""
    try:
        rounding = 1e-7 if plan.engine.dtype == np.float64 else 1e-3
        states = [last.state for last in collector.last]
        again = plan.engine.evaluate_all([state.f for state in states])
        for state, after in zip(states, again, strict=True):
            if warn_if_not_deterministic(state.log_likelihood, after, "at the end of the run", rounding):
                break
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the draws must not be lost because of this check
        warn(
            f"the check of the log-likelihood at the end of the run failed with {error!r}. The draws are not affected."
        )

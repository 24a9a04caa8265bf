"""Coverage of the error bars of `es.evidence` over many seeds, on a problem with a closed form."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from proof.task import Task
from proof.uniform import FALSE_ALARM
from statistical.calibrated_evidence import REPLICATES, TRUTH, estimate, estimate_nested

FULL = {"seeds": 400, "particles": [200, 1000]}
SHORT = {"seeds": 60, "particles": [200]}

LIVE = "live points, errors and standard errors"
"""End of the names of the results of nested sampling."""

PARTS = 8
"""Number of tasks among which the seeds of nested sampling are divided."""

LEVELS = (0.5, 0.9)
"""Nominal coverage of the t-intervals."""


def tasks(seeds: int, particles: list[int]) -> list[Task]:
    tempered = [partial(coverage, seeds, count) for count in particles]
    pieces = [range(seeds)[part::PARTS] for part in range(PARTS)]
    return tempered + [partial(nested_runs, count, piece) for count in particles for piece in pieces]


def nested_runs(particles: int, seeds: range) -> dict[str, Any]:
    """Return the errors of log Z by nested sampling, and the standard errors, for each seed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the replacements of live points")
        runs = [estimate_nested(seed, particles) for seed in seeds]
    return {f"{particles} {LIVE}": [[run.log_z - TRUTH for run in runs], [run.standard_error for run in runs]]}


def coverage(seeds: int, particles: int) -> dict[str, Any]:
    """Return the bias of Z and how many intervals contain the truth, for both estimators."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the particles mix slowly|annealed importance sampling gives")
        runs = [estimate(seed, particles=particles) for seed in range(seeds)]
    found: dict[str, Any] = {}
    for way, freedom in (("", REPLICATES - 1), ("ais_", particles - 1)):
        ratio = np.exp([getattr(run, f"{way}log_z") - TRUTH for run in runs])
        errors = np.array([getattr(run, f"{way}standard_error") for run in runs])
        in_errors = np.log(ratio) / errors
        found[way.rstrip("_") or "sequential"] = {
            "mean of Z over its true value": float(ratio.mean()),
            "standard errors off": float((ratio.mean() - 1) / (ratio.std() / np.sqrt(seeds))),
            "inside": {str(level): inside(in_errors, stats.t(freedom), level) for level in LEVELS},
            "seeds": seeds,
        }
    return {f"{particles} particles": found}


def inside(in_errors: np.ndarray, expected: Any, level: float) -> int:
    """Return the number of central intervals of this level that contain the truth."""
    return int((np.abs(in_errors) < expected.isf((1 - level) / 2)).sum())


def problems(results: dict[str, Any]) -> list[str]:
    said = []
    limit = FALSE_ALARM / (3 * 2 * len(results))
    for name, found in results.items():
        if name.endswith(LIVE):
            said += _problems_of(name, summary(*map(np.array, found)), limit)
        else:
            for way, own in found.items():
                said += _problems_of(f"{name}, {way}", own, limit)
    return said


def summary(off: np.ndarray, errors: np.ndarray) -> dict[str, Any]:
    """Return the bias of log Z by nested sampling, and how many intervals contain the truth."""
    return {
        "standard errors off": float(off.mean() / (off.std(ddof=1) / np.sqrt(len(off)))),
        "inside": {str(level): inside(off / errors, stats.t(REPLICATES - 1), level) for level in LEVELS},
        "seeds": len(off),
    }


def _problems_of(who: str, found: dict[str, Any], limit: float) -> list[str]:
    """Return what is wrong with the bias and the coverage of one method."""
    said = []
    if abs(off := found["standard errors off"]) > stats.norm.isf(limit / 2):
        said.append(f"{who}: the mean is {off:.1f} standard errors off")
    for level, inside in found["inside"].items():
        p = stats.binomtest(inside, found["seeds"], float(level)).pvalue
        if p < limit:
            said.append(f"{who}: {inside} of {found['seeds']} intervals of {level} contain log Z (p = {p:.2g})")
    return said

"""Statistics that a move declares: variables of `sample_stats` on every engine, in memory and in stores."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from ellipslice.moves import Cycle, EllipticalSlice, Local, Move
from stores import assert_same_stores

COMMON = ["total_log_likelihood", "proposals", "evaluations", "nan_evaluations", "search_failed", "angle"]
PRIOR = es.Dense(np.eye(4) + 0.5)
OPTIONS = {"draws": 20, "warmup": 5, "thin": 2, "chains": 2, "seed": 3, "progress": False}
ELLIPSE = EllipticalSlice()


@dataclass(frozen=True)
class Reporting(Move):
    """Elliptical slice sampling that reports a statistic of each type."""

    statistics: ClassVar = {"tried": int, "half": float, "far": bool}

    def step(self, noise, state, target):
        new, info = target.search(ELLIPSE, noise.search(noise.nu[0]), state)
        return new, info._replace(more=(info.evaluations + 1, 0.5 * info.angle, abs(info.angle) > 1))


def log_likelihood(f):
    return -3 * jnp.sum((f - 1) ** 2)


def run(move, **options):
    return es.sample(log_likelihood, PRIOR, move=move, **OPTIONS | options)


@pytest.mark.parametrize("engine", ["host", "compiled"])
def test_they_come_after_the_common_ones(engine):
    tree = run(Reporting(), engine=engine)
    stats = tree.sample_stats
    assert list(stats.data_vars) == [*COMMON, "tried", "half", "far"]
    assert [stats[name].dtype for name in Reporting.statistics] == [np.int64, np.float64, np.bool_]
    np.testing.assert_array_equal(stats.tried, stats.evaluations + 1)
    np.testing.assert_array_equal(stats.half, 0.5 * stats.angle)
    np.testing.assert_array_equal(stats.far, abs(stats.angle) > 1)
    np.testing.assert_array_equal(tree.posterior.f, run(Cycle(ELLIPSE), engine=engine).posterior.f)


@pytest.mark.parametrize("engine", ["host", "compiled"])
def test_a_store_keeps_them(engine, tmp_path):
    pytest.importorskip("zarr")
    whole = run(Reporting(), engine=engine, store=tmp_path / "whole.zarr")
    memory = run(Reporting(), engine=engine)
    run(Reporting(), engine=engine, store=tmp_path / "parts.zarr", draws=7)
    es.resume(tmp_path / "parts.zarr", log_likelihood, move=Reporting(), draws=20, progress=False)
    assert_same_stores(tmp_path / "whole.zarr", tmp_path / "parts.zarr")
    for name in memory.sample_stats.data_vars:
        np.testing.assert_array_equal(whole.sample_stats[name], memory.sample_stats[name])


def test_workers_report_them():
    with ThreadPoolExecutor(2) as pool:
        made = run(Reporting(), engine="host", executor=pool)
    alone = run(Reporting(), engine="host")
    for name in alone.sample_stats.data_vars:
        np.testing.assert_array_equal(made.sample_stats[name], alone.sample_stats[name])


@pytest.mark.parametrize("engine", ["host", "compiled"])
@pytest.mark.parametrize(
    "move", [Cycle(Reporting()), Cycle(Reporting(), ELLIPSE), Local.contiguous(2, move=Reporting())]
)
def test_moves_that_contain_others_drop_them(move, engine):
    assert list(run(move, engine=engine).sample_stats.data_vars) == COMMON


@pytest.mark.parametrize("engine", ["host", "compiled"])
def test_control_variables_report_their_acceptance_rate(engine):
    stats = run(es.moves.ControlVariables.at_values([0, 2]), engine=engine).sample_stats
    assert list(stats.data_vars) == [*COMMON, "acceptance"]
    np.testing.assert_array_equal(stats.acceptance, stats.angle)
    assert {0.0, 0.5} <= set(np.unique(stats.acceptance)) <= {0.0, 0.5, 1.0}


@pytest.mark.parametrize(
    ("statistics", "says"),
    [
        ({"angle": float}, "every move has"),
        ({"name": str}, "float, int or bool"),
        ({1: int}, "expected a string"),
    ],
)
def test_declarations_that_cannot_be_are_refused(statistics, says):
    wrong = type("Wrong", (Reporting,), {"statistics": statistics})
    with pytest.raises(TypeError, match=says):
        run(wrong())


def test_a_single_search_has_none():
    wrong = type("Wrong", (EllipticalSlice,), {"statistics": {"tried": int}})
    with pytest.raises(TypeError, match="is a single search, whose loop is part of the engine"):
        run(wrong())

"""Stopping rules: a run ends when its goals are reached or a budget is used up, reports which, and is reproducible."""

from __future__ import annotations

import time

import numpy as np
import pytest

import ellipslice as es
from ellipslice.sampling import until
from ellipslice.sampling.until import StoppingRule, Until
from stores import assert_same_stores

TARGET = np.array([1.0, -0.5, 0.3])
PRIOR = es.Diagonal(np.ones(3))


def log_likelihood(f):
    return float(-np.square(np.asarray(f) - TARGET).sum())


def run(goals, **options):
    return es.sample(log_likelihood, PRIOR, **{"until": goals, "seed": 2, "progress": False, "warmup": 20, **options})


def test_goals_are_reached_and_said():
    tree = run(Until(effective_sample_size=150, rhat=1.2))
    assert tree.attrs["stopped_by"] == "goals"
    assert tree.attrs["effective_sample_size"] >= 150
    assert tree.attrs["rhat"] <= 1.2
    assert (
        tree.attrs["stopping_rule"] == "Until(effective_sample_size=150.0, rhat=1.2, max_seconds=None, max_draws=None)"
    )
    # The reported values are those of ArviZ for the whole result, because all elements are monitored here.
    assert_judged_as_arviz_does(tree)
    again = run(Until(effective_sample_size=150, rhat=1.2))
    np.testing.assert_array_equal(again.posterior.f, tree.posterior.f)
    longer = es.sample(log_likelihood, PRIOR, draws=400, warmup=20, seed=2, progress=False)
    np.testing.assert_array_equal(tree.posterior.f, longer.posterior.f[:, : tree.posterior.sizes["draw"]])


def assert_judged_as_arviz_does(tree):
    from arviz_stats import ess, rhat

    judged = tree.posterior.to_dataset().assign(total_log_likelihood=tree.sample_stats.total_log_likelihood)
    sizes = [float(values.min()) for m in ("bulk", "tail") for values in ess(judged, method=m).data_vars.values()]
    assert tree.attrs["effective_sample_size"] == pytest.approx(min(sizes))
    worst = max(float(values.max()) for values in rhat(judged).data_vars.values())
    assert tree.attrs["rhat"] == pytest.approx(worst)


def test_the_budget_of_draws():
    with pytest.warns(
        UserWarning, match=r"after 150 draws per chain, because the budget is spent.*size .* \(goal: 100,000\)"
    ):
        tree = run(Until(effective_sample_size=100_000, max_draws=150), chains=2)
    assert tree.attrs["stopped_by"] == "draws"
    assert tree.posterior.sizes["draw"] == 150
    tree = run(Until(max_draws=7))
    assert (tree.attrs["stopped_by"], tree.posterior.sizes["draw"]) == ("draws", 7)


def test_the_budget_of_seconds():
    began = time.perf_counter()
    tree = run(Until(max_seconds=1.5))
    assert tree.attrs["stopped_by"] == "seconds"
    assert time.perf_counter() - began < 10
    assert tree.posterior.sizes["draw"] > 100
    assert "effective_sample_size" not in tree.attrs


def test_a_run_that_outgrows_memory_keeps_what_it_has(monkeypatch):
    from ellipslice.sampling import sinks

    before = sinks.check_memory

    def little(shape, columns):
        if shape[1] > 250:
            raise MemoryError
        before(shape, columns)

    monkeypatch.setattr(sinks, "check_memory", little)
    with pytest.warns(UserWarning, match="after 200 draws per chain, because there is no memory for more draws"):
        tree = run(Until(effective_sample_size=100_000), chains=2)
    assert tree.attrs["stopped_by"] == "memory"
    assert tree.posterior.sizes["draw"] == 200


def test_resumed_as_if_never_stopped(tmp_path):
    pytest.importorskip("zarr")
    goals = Until(effective_sample_size=200, rhat=1.2)
    run(goals, store=tmp_path / "whole.zarr")
    calls = 0

    def failing(f):
        nonlocal calls
        calls += 1
        if calls == 1200:
            raise RuntimeError("killed")
        return log_likelihood(f)

    failing.__qualname__ = log_likelihood.__qualname__
    path = tmp_path / "run.zarr"
    with pytest.raises(RuntimeError, match="killed"):
        es.sample(failing, PRIOR, until=goals, seed=2, progress=False, warmup=20, store=path)
    tree = es.resume(path, log_likelihood, progress=False)
    assert tree.attrs["stopped_by"] == "goals"
    assert_same_stores(tmp_path / "whole.zarr", path)
    draws = tree.posterior.sizes["draw"]
    tree = es.resume(path, log_likelihood, progress=False, until=Until(effective_sample_size=400))
    assert tree.posterior.sizes["draw"] > draws
    assert tree.attrs["effective_sample_size"] >= 400
    tree = es.resume(path, log_likelihood, progress=False, draws=tree.posterior.sizes["draw"] + 5)
    assert tree.attrs["stopped_by"] == "draws"
    assert "effective_sample_size" not in tree.attrs


def test_looks_come_where_the_goal_should_be():
    judge = StoppingRule(Until(effective_sample_size=1000), {"f": np.zeros((1, 3))}, 4)
    assert judge.first_check() == 100
    judge.diagnostics = until.Diagnostics(effective_sample_size=800.0)
    assert judge.next_check(100) == 125
    judge.diagnostics = until.Diagnostics(effective_sample_size=990.0)
    assert judge.next_check(100) == 120
    judge.diagnostics = until.Diagnostics(effective_sample_size=10.0)
    assert judge.next_check(100) == 200
    judge.diagnostics = until.Diagnostics()
    assert judge.next_check(100) == 200
    assert (
        StoppingRule(Until(effective_sample_size=1000, max_draws=110), {"f": np.zeros((1, 3))}, 4).next_check(100)
        == 110
    )


def test_long_traces_are_thinned_alike_whatever_the_pieces(monkeypatch):
    monkeypatch.setattr(until, "MAX_TRACE_DRAWS", 50)
    rng = np.random.default_rng(0)
    values, log_l = rng.standard_normal((2, 230, 40)), rng.standard_normal((2, 230))
    found = []
    for step in (1, 7, 230):
        judge = StoppingRule(Until(rhat=1.01), {"a": values[0, :1, :30], "b": values[0, :1, 30:]}, 2)
        for a in range(0, 230, step):
            for chain in range(2):
                rows = slice(a, a + step)
                latents = {"a": values[chain : chain + 1, rows, :30], "b": values[chain : chain + 1, rows, 30:]}
                judge.write(
                    slice(chain, chain + 1), a, latents, {"total_log_likelihood": log_l[chain : chain + 1, rows]}
                )
        judge.check(230, lambda draws, step: {"a": values[:, :draws:step]})
        found.append(judge.diagnostics)
        assert judge.traces.thinning == 8
        np.testing.assert_array_equal(judge.traces._traces[:, :29, 0], log_l[:, ::8])
        np.testing.assert_array_equal(judge.traces._traces[:, :29, 1], values[:, ::8, 0])
        np.testing.assert_array_equal(judge.traces._traces[:, :29, -1], values[:, ::8, -1])
    assert found[0] == found[1] == found[2]


def test_values_that_never_change_are_not_judged():
    judge = StoppingRule(Until(effective_sample_size=10), {"f": np.zeros((1, 2))}, 2)
    rng = np.random.default_rng(0)
    f = np.stack([rng.standard_normal((2, 100)), np.ones((2, 100))], axis=-1)
    judge.write(slice(0, 2), 0, {"f": f}, {"total_log_likelihood": rng.standard_normal((2, 100))})
    assert judge.check(100, lambda draws, step: {"f": f[:, :draws:step]})
    judge.write(slice(0, 2), 0, {"f": np.ones_like(f)}, {"total_log_likelihood": np.ones((2, 100))})
    assert not judge.check(
        100, lambda draws, step: {"f": np.ones_like(f)}
    )  # a chain that never moves has reached no goal


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ValueError, "no goal and no budget"),
        ({"effective_sample_size": 0}, ValueError, "effective_sample_size must be finite and above 0, but it is 0"),
        ({"effective_sample_size": "many"}, TypeError, "effective_sample_size must be a number"),
        ({"rhat": 1}, ValueError, "rhat must be finite and above 1"),
        ({"max_seconds": np.inf}, ValueError, "max_seconds must be finite"),
        ({"max_draws": 0}, ValueError, "max_draws must be at least 1"),
        ({"max_draws": 1.5}, TypeError, "max_draws must be a whole number"),
        ({"max_draws": True}, TypeError, "max_draws must be a whole number"),
    ],
)
def test_bad_goals(options, error, message):
    with pytest.raises(error, match=message):
        Until(**options)


def test_goals_that_do_not_fit():
    with pytest.raises(ValueError, match=r"the goal rhat=1\.01 compares chains, but chains=1"):
        run(Until(rhat=1.01), chains=1)
    with pytest.raises(ValueError, match=r"draws=10 was given with until=.*Until\(\.\.\., max_draws=\.\.\.\)"):
        run(Until(rhat=1.01), draws=10)
    with pytest.raises(
        TypeError, match=r"until must be an Until, such as Until\(effective_sample_size=400\), but it is 400"
    ):
        run(400)


# --- values that cannot be checked ----------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", [np.nan, np.inf])
def test_goals_that_say_nothing_of_what_is_kept_are_said(gone):
    def keep(f):
        return {"p": gone if f[0] < 0.5 else f[0], "q": f[1]}

    with pytest.warns(
        UserWarning, match=r"only the other variables reach the goals\. Not judged.* missing or infinite: p\."
    ):
        tree = run(Until(effective_sample_size=20, max_draws=1000), keep=keep, chains=2)
    assert tree.attrs["stopped_by"] == "goals"


def test_a_missing_value_before_a_pause_is_said_too(tmp_path):
    pytest.importorskip("zarr")

    def keep(f):
        return np.where(f < 0.5, np.nan, f)

    path = tmp_path / "run.zarr"
    es.sample(log_likelihood, PRIOR, keep=keep, draws=30, seed=1, progress=False, store=path)
    with pytest.warns(UserWarning, match="Not judged, because values are missing or infinite: f"):
        es.resume(path, log_likelihood, keep=keep, until=Until(effective_sample_size=1), progress=False)


@pytest.mark.parametrize("until", [es.Until(rhat=1.1), es.Until(effective_sample_size=10)])
def test_goals_without_anything_to_measure_are_refused(until):
    prior = es.TruncatedGaussian.box(es.Diagonal(np.ones(2)), lower=0.0)
    with pytest.raises(ValueError, match="nothing to measure them on"):
        es.sample(None, prior, until=until, keep=False, progress=False)

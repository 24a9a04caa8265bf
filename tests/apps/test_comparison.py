"""docs/comparison.md agrees with the stored results."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


def comparison():
    return script("comparison")


def script(name):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_comparison_page_is_made_from_the_results():
    assert comparison().PAGE.read_text(encoding="utf8") == comparison().page()


def test_memory_and_both_settings_are_told_where_they_were_measured():
    machine = {
        "device": "cpu",
        "cores": 2,
        "processor": "some",
        "load": [1.25, 1, 1],
        "load_after": [2.0, 1, 1],
        "xla_flags": "",
    }
    shared = {"problem": "R01", "chains": 4, "precision": "double", "effective_per_second": 10.0, "updates": 256}
    rows = [
        {**shared, "contestant": "blackjax", "ratio": 1.0, "ratio_range": [1.0, 1.0], "peak_memory": 2 * 10**8},
        {**shared, "contestant": "blackjax + fast_cpu", "ratio": 2.0, "ratio_range": [1.5, 3.0], "peak_memory": 10**9},
    ]
    told = comparison()._timings({"machine": {**machine, "jax": "1", "blackjax": "1"}, "results": rows})
    assert "2 CPU cores (some, load 1.2 before, 2.0 after), double" in told
    assert "| blackjax + fast_cpu | 2 (1.5 to 3) |" in told
    assert "| blackjax + fast_cpu | 1,000 |" in told
    for row in rows:
        del row["peak_memory"]
    assert "memory" not in comparison()._timings({"machine": {**machine, "jax": "1", "blackjax": "1"}, "results": rows})


def some_scaling():
    machine = {"cores": 2, "processor": "some", "jax": "1", "blackjax": "1", "load": [1, 1, 1], "load_after": [2, 1, 1]}
    shared = {"updates": 64, "range": [1.0, 3000.0]}
    sizes = [
        {"line": line, "size": size, "chains": 1, "microseconds": size / 10, **shared}
        for line in ("BlackJAX, dense", "ours, Dense", "ours, Markov")
        for size in (100, 20_000 if "Markov" in line else 2_000)
    ]
    chains = [{"line": "ours", "size": 200, "chains": count, "microseconds": 12.5, **shared} for count in (1, 8192)]
    return {"machine": machine, "sizes": sizes, "chains": chains}


def test_costs_are_tables_and_a_picture():
    told = comparison()._part(some_scaling())
    assert "images/scaling.png" in told
    assert "| µs per update; N, one chain: | 100 | 2,000 | 20,000 |" in told
    assert "| ours, Markov | 10.0 |  | 2,000.0 |" in told
    assert "| ours | 12.5 | 12.5 |" in told


def some_effective(rates):
    """Return results of `ellipslice bench` on one problem: the rate of each method, or None if it has not converged."""
    rows = [
        {
            "problem": "pines",
            "method": method,
            "seed": seed,
            "chosen": "kicks",
            "converged": rate is not None,
            "effective_sample_size": 100.0 * (rate or 1.0),
            "rhat": 1.0,
            "sampling_seconds": 100.0,
            "preparation_seconds": None,
        }
        for method, rate in rates.items()
        for seed in (1, 2)
    ]
    about = {"machine": {"processor": "some", "jax": "1"}, "commit": "0123456789", "arguments": [{}]}
    return about | {"effective_samples": rows}


def test_rates_and_their_ratios_are_tables():
    page = comparison()
    told = page._effective_samples(some_effective({"auto": 1200.0, "NUTS-dense": 300.0, "mgrad": None}))
    assert "`ellipslice bench --effective --seeds 2`, one core (some)," in told
    assert f"| {page.METHODS['auto']} | 1,200 |" in told
    assert f"| {page.METHODS['mgrad']} | not converged |" in told
    assert f"Fastest method on pines: {page.METHODS['auto']}." in told.replace("\n", " ")
    assert f"| {page.METHODS['NUTS-dense']} | 4 |" in told


def test_the_choice_is_a_table():
    rates = {"only-independent": None, "only-ellipses": 50.0, "only-kicks": 300.0, "auto": 200.0}
    told = comparison()._choice(some_effective(rates))
    assert "`ellipslice bench --choice --seeds 2`" in told
    assert "| pines | not converged | 50 | 300 | kicks (2) | 1.50 | 1.50 |" in told
    assert "In 2 of 2 choices it is at most 2." in told


@pytest.mark.long
def test_scaling_draws_what_it_measures(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    pytest.importorskip("tinygp")
    monkeypatch.syspath_prepend(str(SCRIPTS))  # as if the script were run from its folder
    scaling = script("scaling")
    monkeypatch.setattr(scaling, "SECONDS", 0.01)
    rows = scaling.measure(lambda: scaling.against_size([100], [50]))
    assert {row["line"] for row in rows} == {"BlackJAX, dense", "ours, Dense", "ours, Stationary", "ours, Markov"}
    assert all(row["microseconds"] > 0 for row in rows)
    chains = scaling.measure(lambda: scaling.against_chains([2]))
    assert [(row["line"], row["chains"]) for row in chains] == [("BlackJAX", 2), ("ours", 2)]
    assert chains[1]["updates"] % 1024 == 0
    scaling.draw({**some_scaling(), "sizes": rows}, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").stat().st_size > 10_000

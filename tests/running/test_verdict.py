"""What `verdict` says, on results made by hand."""

from __future__ import annotations

from typing import Any

import arviz_base
import numpy as np
import pytest

import ellipslice as es


def tree(draws: int = 1000, chains: int = 4, **latents: Any) -> Any:
    """A result with these latents, and a log-likelihood that is well mixed."""
    rng = np.random.default_rng(0)
    made = arviz_base.from_dict(
        {
            "posterior": {name: values(rng, (chains, draws)) for name, values in latents.items()},
            "sample_stats": {"total_log_likelihood": rng.standard_normal((chains, draws))},
        }
    )
    made.attrs.update(
        engine="host", evaluations=5 * draws, updates=draws, thin=1, interrupted=0, nan_evaluations=0, stuck_updates=0
    )
    return made


def mixed(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.standard_normal((*shape, 2))


def own_place(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """One chain in another mode, seen through something that is constant within each."""
    return np.broadcast_to(np.eye(shape[0])[0][:, None], shape)


def slow(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """A random walk held together, whose every step is small: some chains agree, and are worth little."""
    walk = np.zeros(shape)
    for t in range(1, shape[1]):
        walk[:, t] = 0.995 * walk[:, t - 1] + 0.1 * rng.standard_normal(shape[0])
    return walk


def missing(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    values = rng.standard_normal(shape)
    values[0, 3] = np.nan
    return values


def still(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return np.full(shape, 2.0)


def test_all_well():
    text = es.diagnostics.verdict(tree(f=mixed))
    assert "agree and have drawn enough" in text
    assert "moves little" not in text


@pytest.mark.parametrize("draws", [500, 1000])
def test_chains_that_sit_in_places_of_their_own(draws):
    text = es.diagnostics.verdict(tree(draws, right=own_place, g=mixed))
    assert "R-hat: above 100 (right)" in text
    assert "do not agree" in text


def test_a_chain_that_hardly_moves_gets_advice():
    text = es.diagnostics.verdict(tree(20_000, f=slow))
    assert "f" in text
    text = es.diagnostics.verdict(tree(5000, f=slow))
    assert "Each update moves little" in text
    assert "reference='auto'" in text
    around = tree(5000, f=slow)
    around.attrs["reference"] = "pilot"
    assert "The reference is of little use here" in es.diagnostics.verdict(around)


def test_missing_values_are_said():
    assert "Not judged, because values are missing or infinite: part." in es.diagnostics.verdict(
        tree(part=missing, f=mixed)
    )


def test_what_never_changes_does_not_matter():
    assert "agree and have drawn enough" in es.diagnostics.verdict(tree(f=mixed, c=still))


def test_an_interrupted_run_and_trouble_are_said():
    made = tree(f=mixed)
    made.attrs.update(interrupted=1, nan_evaluations=3, stuck_updates=2)
    text = es.diagnostics.verdict(made)
    assert "interrupted" in text
    assert "3 evaluations gave NaN" in text
    assert "2 updates found no acceptable point" in text


def test_too_few_to_judge():
    assert "Too few draws" in es.diagnostics.verdict(tree(3, chains=2, f=mixed))
    assert "needs at least 2 chains" in es.diagnostics.verdict(tree(chains=1, f=mixed))


# --- what is judged ---------------------------------------------------------------------------------------------------


def signs(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.standard_normal((*shape, 2)) > 0


def infinite(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    values = rng.standard_normal(shape)
    values[0, 3] = -np.inf
    return values


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int64, np.float16, np.float32])
def test_booleans_and_whole_numbers_are_judged_as_numbers(kind):
    as_floats, as_kept = (
        es.diagnostics.verdict(tree(p=lambda rng, shape, to=to: signs(rng, shape).astype(to))) for to in (float, kind)
    )
    assert as_kept == as_floats
    assert "agree and have drawn enough" in as_kept


def test_a_boolean_trace_has_an_efficiency():
    made = tree(p=signs)
    made.attrs["sampling_time"] = 1.0
    found = es.diagnostics.efficiency(made, made.posterior.p[..., 0])
    assert found == es.diagnostics.efficiency(made, made.posterior.p[..., 0].astype(float))


def test_infinite_values_are_said():
    assert "missing or infinite: part." in es.diagnostics.verdict(tree(part=infinite, f=mixed))


@pytest.mark.long_cases("batched")
@pytest.mark.parametrize("engine", ["host", "compiled", "batched"])
def test_a_run_that_keeps_booleans_is_judged(engine):
    tree = es.sample(
        lambda f: -(f**2).sum(),
        es.Diagonal(np.ones(2)),
        keep=lambda f: {"p": f > 0, "n": (f > 0).sum()},
        until=es.Until(effective_size=20, draws=200),
        seed=1,
        chains=2,
        warmup=5,
        progress=False,
        engine=engine,
    )
    assert tree.attrs["stopped_by"] == "goals"
    assert tree.posterior.p.dtype == bool
    assert "kept values at least" in es.diagnostics.verdict(tree)


# --- what is no result ------------------------------------------------------------------------------------------------


def without(made: Any, *attributes: str) -> Any:
    made = made.copy()
    made.attrs = {name: value for name, value in made.attrs.items() if name not in attributes}
    return made


OTHERS = {
    "one chain": (lambda made: made.isel(chain=0), ValueError, r"no dimension chain.*tree\.isel\(chain=\[0\]\)"),
    "one draw": (lambda made: made.isel(draw=0), ValueError, "no dimension draw"),
    "a dataset": (lambda made: made.posterior.to_dataset(), TypeError, "this is a Dataset.*DataTree that `sample`"),
    "an array": (lambda made: made.posterior.f.values, TypeError, "this is a ndarray"),
    "no statistics": (lambda made: made.drop_nodes("sample_stats"), ValueError, "no group sample_stats.* posterior"),
    "no draws": (lambda made: made.drop_nodes("posterior"), ValueError, "no group posterior"),
    "no groups": (lambda made: made["posterior"], ValueError, "no group posterior; its groups are none"),
    "no attributes": (lambda made: without(made, *made.attrs), ValueError, "no attribute engine"),
    "an attribute": (lambda made: without(made, "updates"), ValueError, "no attribute updates"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_result_is_refused_in_words(name):
    change, kind, message = OTHERS[name]
    for function in (es.diagnostics.verdict, es.diagnostics.efficiency):
        with pytest.raises(kind, match=message):
            function(change(tree(f=mixed)))


def test_a_result_of_an_older_version_is_told_the_new_name():
    made = tree(f=mixed)
    made["sample_stats"].dataset = made["sample_stats"].to_dataset().rename(total_log_likelihood="log_likelihood")
    with pytest.raises(ValueError, match=r"has no total_log_likelihood.*older versions called it: rename it"):
        es.diagnostics.verdict(made)

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
    assert "Not judged, because values are missing: part." in es.diagnostics.verdict(tree(part=missing, f=mixed))


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

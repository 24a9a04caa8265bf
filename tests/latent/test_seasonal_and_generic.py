"""Seasonal effects and structure matrices of users: known values, forms of arguments, and fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import ellipslice as es
from catalogue_terms import REGIONS, laplacian
from ellipslice.latent.terms import Generic, Seasonal

RING = 2 * np.eye(5) - np.roll(np.eye(5), 1, axis=0) - np.roll(np.eye(5), -1, axis=0)


def test_a_pattern_that_repeats_has_no_penalty():
    bound = Seasonal("t", period=12).bind({"t": np.arange(40)})
    pattern = np.random.default_rng(0).standard_normal(12)
    repeated = np.resize(pattern - pattern.mean(), 40)
    np.testing.assert_allclose(bound.precision(sd=1.0) @ repeated, 0.0, atol=1e-13)
    weights = np.linalg.lstsq(bound.improper.T, repeated, rcond=None)[0]
    np.testing.assert_allclose(weights @ bound.improper, repeated, atol=1e-12)
    assert bound.precision(sd=1.0) @ np.ones(40) @ np.ones(40) == pytest.approx(29 * 144)


def test_patterns_of_an_odd_period():
    names = list(Seasonal("t", period=5).bind({"t": np.arange(9)}).state.structure.improper)
    assert names == ["cosine of period 5", "sine of period 5", "cosine of period 2.5", "sine of period 2.5"]


def test_months_without_data_have_effects():
    bound = Seasonal("t", period=3).bind({"t": [2, 5, 6, 9]})
    assert bound.coords["t_level"].tolist() == [2, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.csc_matrix, lambda q: q.tolist()])
def test_forms_of_a_structure_matrix(make):
    bound = Generic("t", Q=make(RING), labels=list("abcde")).bind({"t": ["b", "e"]})
    np.testing.assert_allclose(bound.precision(sd=0.5).toarray(), 4 * RING, atol=1e-12)
    np.testing.assert_array_equal(bound.constraints, np.ones((1, 5)))
    np.testing.assert_array_equal(bound.rows().toarray().argmax(axis=1), [1, 4])


def test_the_index_of_a_data_frame_has_the_labels():
    frame = pd.DataFrame(RING, index=list("abcde"), columns=list("abcde"))
    assert Generic("t", Q=frame).bind({"t": ["b"]}).coords["t_level"].tolist() == list("abcde")


def test_null_spaces_of_components_have_names():
    names = list(Generic("region", Q=laplacian(), labels=REGIONS).bind({"region": ["a"]}).state.structure.constraints)
    assert names == ["sum to zero in the component of a", "sum to zero in the component of e"]
    flat = Generic("t", Q=np.diag([1.0, 0.0, 2.0]), constraint="none").bind({"t": [0]})
    np.testing.assert_array_equal(flat.improper, [[0.0, 1.0, 0.0]])


def test_a_large_regular_matrix_needs_no_search():
    size = 2500
    path = sparse.diags_array([-np.ones(size - 1), np.full(size, 2.0), -np.ones(size - 1)], offsets=[-1, 0, 1])
    bound = Generic("t", Q=path, rank=size).bind({"t": [3]})
    assert bound.log_determinant(sd=1.0) == pytest.approx(np.log(size + 1.0), abs=1e-7)


def test_drawn_effects_have_the_covariance_of_a_relationship_matrix():
    relations = np.array([[1.0, 0.5, 0.25], [0.5, 1.0, 0.5], [0.25, 0.5, 1.0]])
    bound = Generic("animal", Q=np.linalg.inv(relations)).bind({"animal": [0, 1, 2]})
    np.testing.assert_allclose(np.linalg.inv(bound.precision(sd=2.0).toarray()), 4 * relations, rtol=1e-12)


@pytest.mark.long
def test_a_fit_of_a_season_covers_the_truth():
    rng, months = np.random.default_rng(1), np.arange(96)
    truth = np.sin(2 * np.pi * months / 12) + 0.4 * np.cos(2 * np.pi * months / 4)
    data = {"y": rng.poisson(np.exp(1.0 + truth)), "month": months}
    fit = es.LatentGaussianModel("y ~ 1 + seasonal(month, period=12)", data=data, family="poisson").fit(
        draws=400, seed=1, progress=False
    )
    table = fit.summary(["month", "month_sd", "fixed"])
    assert table.rhat.max() < 1.03
    inside = (table["2.5%"][:96].to_numpy() < truth) & (truth < table["97.5%"][:96].to_numpy())
    assert inside.mean() > 0.85
    assert table["97.5%"]["month_sd"] < 0.5


@pytest.mark.long
def test_a_fit_of_a_structure_matrix_covers_the_truth():
    rng, size = np.random.default_rng(2), 40
    parents = np.tril(0.5 * np.eye(size, k=-1)[:, :])
    relations = np.linalg.inv(np.eye(size) - parents) @ np.linalg.inv(np.eye(size) - parents).T
    truth = 0.8 * np.linalg.cholesky(relations) @ rng.standard_normal(size)
    animal = np.repeat(np.arange(size), 3)
    data = {"y": truth[animal] + 0.5 * rng.standard_normal(3 * size), "animal": animal}
    Q = np.linalg.inv(relations)
    fit = es.LatentGaussianModel("y ~ 1 + generic(animal, Q=Q)", data=data).fit(draws=400, seed=1, progress=False)
    assert Q.shape == (size, size)
    table = fit.summary(["animal", "animal_sd", "noise_scale"])
    assert table.rhat.max() < 1.03
    assert table["2.5%"]["animal_sd"] < 0.8 < table["97.5%"]["animal_sd"]
    assert table["2.5%"]["noise_scale"] < 0.5 < table["97.5%"]["noise_scale"]

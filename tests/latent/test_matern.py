"""Matérn fields on a lattice: known values, interpolation, results and fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import special
from scipy.sparse.linalg import spsolve

import ellipslice as es
from ellipslice.latent.terms import Matern, pc_range
from ellipslice.testing import check_term

XY = {"x": np.array([0.0, 9.0, 3.5]), "y": np.array([0.0, 6.0, 2.25])}


def correlation(distance, length):
    z = np.sqrt(8) * np.maximum(distance, 1e-12) / length
    return z * special.k1(z)


@pytest.mark.parametrize(("length", "tolerance"), [(4.0, 0.027), (6.0, 0.026), (12.0, 0.015)])
def test_the_covariance_is_that_of_the_matern_function(length, tolerance):
    """The exact one of the plane, at the middle of a lattice with a wide margin and cells of side 1."""
    bound = Matern(("x", "y"), spacing=1.0, extension=40.0).bind({"x": [0, 20], "y": [0, 20]})
    unit = np.zeros(bound.size)
    unit[50 * 101 + 50] = 1.0
    covariance = spsolve(bound.precision(sd=1.7, range=length).tocsc(), unit).reshape(101, 101) / 1.7**2
    distances = np.hypot(*np.meshgrid(np.arange(-10, 11), np.arange(-10, 11)))
    error = covariance[40:61, 40:61] - correlation(distances, length)
    assert np.abs(error[distances > 0]).max() < tolerance
    assert 1.0 < covariance[50, 50] < 1.12


def test_finer_cells_are_closer_to_the_matern_function():
    errors = []
    for spacing in (1.0, 0.5, 0.25):
        bound = Matern(("x", "y"), spacing=spacing, extension=12.0).bind({"x": [0, 4], "y": [0, 4]})
        inverse = spsolve(
            bound.precision(sd=1.0, range=6.0).tocsc(), bound.rows({"x": [2], "y": [2]}).toarray().T.ravel()
        )
        along = bound.effects(inverse)["x_y"][1][:, round(2 / spacing)]
        distances = np.abs(bound.coords["x_y_x"] - 2.0)
        errors.append(np.abs(along - correlation(distances, 6.0))[distances >= 1.0].max())
    assert errors[0] < 0.026
    assert errors[2] < errors[1] / 2 < errors[0] / 4


def test_variances_between_nodes_are_smaller():
    """On average over places they are up to 11% smaller than sd^2, if the range is at least 4 cells."""
    bound = Matern(("x", "y"), spacing=1.0, extension=20.0).bind({"x": [0, 4], "y": [0, 4]})
    x, y = np.divmod(np.arange(400), 20)
    rows = bound.rows({"x": 1 + x / 10, "y": 1 + y / 10})
    for length in (4.0, 8.0):
        solved = spsolve(bound.precision(sd=1.0, range=length).tocsc(), rows.T.toarray())
        assert 0.89 < (rows @ solved).diagonal().mean() < 1.0


def test_default_lattice():
    bound = Matern(("x", "y")).bind(XY)
    lattice = bound.lattice
    assert (lattice.shape, lattice.border, lattice.spacing) == ((41, 28), 10, 9 / 40)
    assert bound.size == 61 * 48
    assert bound.coords["x_y_x"][[0, -1]] == pytest.approx([0.0, 9.0])
    assert bound.coords["x_y_y"][-1] == pytest.approx(27 * 9 / 40)
    assert float(bound.priors["range"].cdf(0.9)) == pytest.approx(0.05)
    assert float(bound.priors["sd"].cdf(1.0)) == pytest.approx(0.99)


def test_linear_functions_are_interpolated_exactly():
    rng = np.random.default_rng(0)
    places = {"x": rng.uniform(1, 8, 50), "y": rng.uniform(-2, 5, 50)}
    bound = Matern(("x", "y"), spacing=0.9).bind(places)
    x, y = np.meshgrid(bound.coords["x_y_x"], bound.coords["x_y_y"], indexing="ij")
    np.testing.assert_allclose(bound.level_rows() @ (2 * x - y).ravel(), 2 * places["x"] - places["y"], atol=1e-12)
    np.testing.assert_allclose(bound.rows().sum(axis=1), 1.0)
    assert (bound.rows().data > 0).all()


def test_data_on_the_nodes_have_one_latent_each():
    x, y = np.divmod(np.arange(30), 6)
    bound = Matern(("x", "y"), spacing=0.1, extension=0.2).bind({"x": 0.1 * x, "y": 0.1 * y})
    assert bound.rows().nnz == 30
    values = bound.effects(np.arange(bound.size))["x_y"][1]
    np.testing.assert_array_equal(bound.rows() @ np.arange(bound.size), values.ravel())


def test_new_places():
    bound = Matern(("x", "y"), spacing=1.0, bounds=((-1, 10), (0, 8))).bind(XY)
    new = {"x": [-1.0, 10.5, 4.0], "y": [8.0, 1.0, 8.2]}
    np.testing.assert_array_equal(bound.unseen(new), [False, True, True])
    with pytest.raises(
        ValueError, match=r"no value at the places of rows 1, 2. Its rectangle is x from -1 to 10, y from 0 to"
    ):
        bound.rows(new)


def test_columns_of_a_frame_and_arrays():
    array = np.column_stack(list(XY.values()))
    by_name = Matern(("x", "y"), spacing=1.0).bind(pd.DataFrame(XY))
    for column in (array, pd.DataFrame(XY)):
        bound = Matern(column, spacing=1.0, name="field").bind()
        np.testing.assert_array_equal(bound.rows().toarray(), by_name.rows().toarray())
    assert list(bound.coords) == ["field_x", "field_y"]
    check_term(Matern(array, spacing=3.0, extension=0, name="field"))


def test_a_large_lattice_is_made_and_evaluated_in_little_time():
    rng = np.random.default_rng(0)
    bound = Matern(("x", "y"), spacing=0.01).bind({"x": rng.uniform(size=500), "y": rng.uniform(size=500)})
    assert bound.size > 20_000
    assert np.isfinite(bound.log_determinant(sd=1.0, range=0.2))


def test_range_prior():
    prior = pc_range(2.0, 0.1)
    assert float(prior.cdf(2.0)) == pytest.approx(0.1)
    rate = -2 * np.log(0.1)
    assert float(prior.log_prob(3.0)) == pytest.approx(np.log(rate) - 2 * np.log(3.0) - rate / 3.0)


@pytest.mark.long
def test_a_fit_of_a_field_covers_the_truth():
    rng = np.random.default_rng(0)
    places = {"x": rng.uniform(0, 10, 400), "y": rng.uniform(0, 8, 400)}
    term = Matern(("x", "y"), spacing=0.5, extension=4.0)
    truth = term.bind(places)
    latents = truth.simulate(rng, sd=0.8, range=4.0)
    data = {**places, "count": rng.poisson(np.exp(1.0 + truth.rows() @ latents))}
    model = es.LatentGaussianModel("count ~ 1 + matern(x, y, spacing=0.5, extension=4.0)", data=data, family="poisson")
    fit = model.fit(draws=300, seed=1, progress=False)
    table = fit.summary(["x_y_sd", "x_y_range", "x_y"])
    assert table.rhat.max() < 1.05
    assert table["2.5%"]["x_y_sd"] < 0.8 < table["97.5%"]["x_y_sd"]
    assert table["2.5%"]["x_y_range"] < 4.0 < table["97.5%"]["x_y_range"]
    field = truth.effects(latents)["x_y"][1].ravel()
    inside = (table["2.5%"][2:].to_numpy() < field) & (field < table["97.5%"][2:].to_numpy())
    assert 0.85 < inside.mean() <= 1.0
    assert table.index[2] == "x_y[0, 0]" or "," in table.index[2]
    new = fit.predict({"x": [5.0, 2.5], "y": [4.0, 0.25]}, draws=100)
    assert new["linear_predictor"].shape == (4, 25, 2)
    assert fit.plot("x_y").get_xlabel() == "x"
    assert len(fit.compare_with_laplace().table) > 60


def test_a_formula_gives_both_columns():
    data = {**XY, "count": [1, 2, 0]}
    model = es.LatentGaussianModel("count ~ 1 + matern(x, y, spacing=3, name='field')", data=data, family="poisson")
    assert model.definition.dims["field"] == ["field_x", "field_y"]
    with pytest.raises(ValueError, match=r"rw2\(x, y\) has 2 columns, but RW2 has one. .* rw2\(x, prior=p\)"):
        es.LatentGaussianModel("count ~ 1 + rw2(x, y)", data=data, family="poisson")

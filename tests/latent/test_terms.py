"""Terms: property tests of the catalogue, known formulas, levels, labels, new data and default priors."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import linalg, sparse

import ellipslice as es
from catalogue import SEEDS
from catalogue_terms import AGES, CATALOGUE, DATA, EDGES, GRAPH, REGIONS, scaled_laplacian
from ellipslice.latent.terms import AR1, BYM, BYM2, ICAR, IID, REGISTERED, RW1, RW2, Fixed, ScaledTerm, Structure
from ellipslice.latent.terms.generalised import GeneralisedInverse
from ellipslice.testing import check_term

EVERY = pytest.mark.parametrize("name", CATALOGUE)
FRAME = pd.DataFrame(DATA)


def data_of(name):
    return None if name == "RW2, cyclic, irregular" else DATA


def test_every_registered_term_is_in_the_catalogue():
    assert {type(case.make()) for case in CATALOGUE.values()} == set(REGISTERED)


@pytest.mark.parametrize("seed", SEEDS)
@EVERY
def test_a_term_has_the_properties_and_the_precision(name, seed):
    check_term(CATALOGUE[name].make(), data_of(name), precision=CATALOGUE[name].precision, seed=seed)


@EVERY
def test_a_data_frame_and_another_unit(name):
    check_term(CATALOGUE[name].make(), FRAME if data_of(name) else None, unit=20.0, seed=1)


@EVERY
def test_a_bound_term_can_be_pickled(name):
    bound = CATALOGUE[name].make().bind(data_of(name))
    values = dict.fromkeys(bound.hyperparameters, 0.4)
    again = pickle.loads(pickle.dumps(bound))
    assert again.log_determinant(**values) == bound.log_determinant(**values)
    np.testing.assert_array_equal(again.rows().toarray(), bound.rows().toarray())


def test_a_term_before_bind_has_no_size():
    with pytest.raises(TypeError, match=r"IID\(g\) has no data yet. Call bind\(data\) first"):
        _ = IID("g").size


def test_bind_again_uses_the_other_data_and_unit():
    bound = IID("g").bind(DATA)
    other = bound.bind({"g": [1, 2]}, unit=2.0)
    assert (bound.size, other.size) == (3, 2)
    assert float(bound.priors["sd"].rate) == pytest.approx(2 * float(other.priors["sd"].rate))


# --- generalised inverses ---------------------------------------------------------------------------------------------


def test_generalised_inverse_of_a_lattice():
    path = sparse.diags_array([-np.ones(19), [1, *[2] * 18, 1], -np.ones(19)], offsets=[-1, 0, 1])
    matrix = (sparse.kron(path, sparse.eye_array(20)) + sparse.kron(sparse.eye_array(20), path)).tocsc()
    inverse = GeneralisedInverse(matrix, np.ones((1, 400)))
    eigenvalues = np.linalg.eigvalsh(matrix.toarray())[1:]
    assert inverse.log_determinant == pytest.approx(np.log(eigenvalues).sum(), abs=1e-9)
    dense = np.linalg.pinv(matrix.toarray(), rcond=1e-10, hermitian=True)
    np.testing.assert_allclose(inverse.variances(), np.diag(dense), rtol=1e-10)
    root = inverse.unwhiten(np.eye(400))
    centre = np.eye(400) - 1 / 400
    np.testing.assert_allclose(centre @ root @ root.T @ centre, dense, atol=1e-10)


@pytest.mark.parametrize("size", [3, 64, 65, 150])
def test_generalised_inverse_without_a_null_space(size):
    rng = np.random.default_rng(size)
    band = sparse.diags_array([rng.uniform(size=size), rng.uniform(size=size - 1)], offsets=[0, -1])
    matrix = (band @ band.T + sparse.eye_array(size)).tocsc()
    inverse = GeneralisedInverse(matrix, np.zeros((0, size)))
    assert inverse.log_determinant == pytest.approx(np.linalg.slogdet(matrix.toarray())[1], abs=1e-10)
    np.testing.assert_allclose(inverse.variances(), np.diag(np.linalg.inv(matrix.toarray())), rtol=1e-11)


@pytest.mark.parametrize(("make", "determinant"), [(RW1, lambda n: n), (RW2, lambda n: n**2 * (n**2 - 1) / 12)])
@pytest.mark.parametrize("n", [5, 120, 700])
def test_log_determinants_of_regular_walks_have_a_closed_form(make, determinant, n):
    bound = make("t", scale_model=False).bind({"t": np.arange(n)})
    assert bound.log_determinant(sd=1.0) == pytest.approx(np.log(float(determinant(n))), abs=1e-6)


@pytest.mark.parametrize(("make", "order"), [(RW1, 1), (RW2, 2)])
def test_log_determinants_of_cyclic_walks_have_a_closed_form(make, order):
    bound = make("t", cyclic=True, scale_model=False).bind({"t": np.arange(366)})
    assert bound.log_determinant(sd=1.0) == pytest.approx(2 * order * np.log(366), abs=1e-7)


@pytest.mark.parametrize(
    ("term", "data"),
    [
        (RW1("age"), {"age": AGES}),
        (RW2("age", constraint="trend"), {"age": AGES}),
        (RW2("age", cyclic=True, period=30), {"age": AGES}),
        (ICAR("region", graph=EDGES[:4]), {"region": ["a"]}),
    ],
)
def test_scaled_terms_have_variances_with_geometric_mean_one(term, data):
    precision = term.bind(data).precision(sd=1.0).toarray()
    variances = np.diag(np.linalg.pinv(precision, rcond=1e-10, hermitian=True))
    assert np.exp(np.log(variances).mean()) == pytest.approx(1.0, abs=1e-10)


def test_a_scaled_walk_does_not_depend_on_the_unit_of_time():
    one, other = (RW2("age").bind({"age": AGES * factor}) for factor in (1.0, 365.25))
    np.testing.assert_allclose(one.precision(sd=0.5).toarray(), other.precision(sd=0.5).toarray(), rtol=1e-9)


# --- spatial terms ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phi", [0.03, 0.6, 0.99])
def test_marginal_covariance_of_bym2(phi):
    sd, bound = 1.7, BYM2("region", **GRAPH).bind(DATA)
    basis = linalg.null_space(bound.constraints)
    joint = basis @ np.linalg.inv(basis.T @ bound.precision(sd=sd, phi=phi).toarray() @ basis) @ basis.T
    field = np.linalg.pinv(scaled_laplacian(), rcond=1e-10, hermitian=True)
    np.testing.assert_allclose(joint[:8, :8], sd**2 * ((1 - phi) * np.eye(8) + phi * field), atol=1e-11)
    np.testing.assert_allclose(joint[8:, 8:], field, atol=1e-11)


@pytest.mark.parametrize(("phi", "rho"), [(1.0, 1.0), (0.0, -1.0)])
def test_hyperparameters_that_round_to_a_bound_have_finite_coefficients(phi, rho):
    assert np.isfinite(BYM2("region", **GRAPH).bind(DATA).coefficients(sd=0.5, phi=phi)).all()
    assert np.isfinite(AR1("week").bind(DATA).coefficients(sd=0.5, rho=rho)).all()


def test_results_of_bym_are_the_sum_and_its_parts():
    x = np.random.default_rng(0).standard_normal((5, 16))
    effects = BYM("region", **GRAPH).bind(DATA).effects(x)
    assert list(effects) == ["region", "region_structured", "region_unstructured"]
    np.testing.assert_allclose(effects["region"][1], x[:, :8] + x[:, 8:])
    np.testing.assert_array_equal(effects["region_structured"][1], x[:, :8])
    two = BYM2("region", **GRAPH).bind(DATA).effects(x)
    np.testing.assert_array_equal(two["region"][1], x[:, :8])
    np.testing.assert_array_equal(two["region_structured"][1], x[:, 8:])


class Weights:
    """A graph with the attribute of libpysal."""

    neighbors: ClassVar = {
        each: [b for a, b in EDGES if a == each] + [a for a, b in EDGES if b == each] for each in REGIONS
    }


class Network:
    """A graph with the attributes of networkx."""

    nodes, edges = REGIONS, EDGES


def forms():
    matrix = -np.minimum(np.array([[0.0] * 8] * 8), 0.0)
    for a, b in EDGES:
        i, j = REGIONS.index(a), REGIONS.index(b)
        matrix[i, j] = matrix[j, i] = 1.0
    return {
        "matrix": {"graph": matrix, "regions": REGIONS},
        "integer matrix": {"graph": matrix.astype(int), "regions": REGIONS},
        "sparse matrix": {"graph": sparse.csr_array(matrix), "regions": REGIONS},
        "data frame": {"graph": pd.DataFrame(matrix, index=REGIONS, columns=REGIONS)},
        "edges in both directions": {"graph": EDGES + [(b, a) for a, b in EDGES], "regions": REGIONS},
        "array of edges": {"graph": np.array(EDGES), "regions": REGIONS},
        "mapping": {"graph": Weights.neighbors},
        "libpysal": {"graph": Weights()},
        "networkx": {"graph": Network()},
    }


@pytest.mark.parametrize("form", forms())
def test_forms_of_a_graph(form):
    bound = ICAR("region", **forms()[form]).bind(DATA)
    assert bound.coords["region_level"].tolist() == REGIONS
    np.testing.assert_allclose(bound.precision(sd=1.0).toarray(), scaled_laplacian(), rtol=1e-12, atol=1e-14)


def test_regions_without_data_have_effects():
    bound = ICAR("region", **GRAPH).bind({"region": ["b", "h"]})
    assert bound.size == 8
    np.testing.assert_array_equal(bound.rows().toarray().argmax(axis=1), [1, 7])


def test_describe_states_components_and_isolated_regions():
    text = BYM2("region", **GRAPH).bind(DATA).describe()
    assert "8 regions, 2 connected components, 1 without neighbours" in text
    assert "sum to zero in the component of a, structured effects: sum to zero in the component of e" in text
    assert "Prior of region_sd: Exponential(rate=4.605). Prior of region_phi: Uniform(low=0, high=1)." in text


# --- levels and new data ----------------------------------------------------------------------------------------------


def test_levels_keep_the_order_of_categories():
    column = pd.Categorical(["low", "high", "low"], categories=["low", "middle", "high"])
    assert IID("g").bind(pd.DataFrame({"g": column})).coords["g_level"].tolist() == ["low", "high"]


@pytest.mark.parametrize("values", [[True, False, True], [3, 1, 3], [0.5, 0.25, 0.5], ["b", "a", "b"]])
def test_types_of_levels(values):
    bound = IID("g").bind({"g": values})
    assert bound.coords["g_level"].tolist() == sorted(set(values))
    np.testing.assert_array_equal(bound.rows().toarray(), [[0, 1], [1, 0], [0, 1]])


def test_one_group_is_allowed():
    check_term(IID("g"), {"g": ["a", "a"]})


def test_new_levels_are_found_and_named():
    bound = IID("g", weights="x").bind(DATA)
    new = {"g": ["a", "z", "b", "y"], "x": [1.0, 2.0, 3.0, 4.0]}
    np.testing.assert_array_equal(bound.unseen(new), [False, True, False, True])
    with pytest.raises(ValueError, match=r"g_x has no level z, y\. Its levels are: a, b, c"):
        bound.rows(new)
    known = {name: np.asarray(values)[[0, 2]] for name, values in new.items()}
    np.testing.assert_array_equal(bound.rows(known).toarray(), [[1, 0, 0], [0, 3, 0]])


def test_arrays_and_series_instead_of_names():
    series = pd.Series(["b", "a"], name="hospital")
    bound = IID(series).bind()
    assert bound.name == "hospital"
    np.testing.assert_array_equal(bound.rows({"hospital": ["a", "a"]}).toarray(), [[1, 0], [1, 0]])
    named = RW1([3, 1, 2], name="t").bind()
    np.testing.assert_array_equal(named.rows().toarray(), np.eye(3)[[2, 0, 1]])
    np.testing.assert_array_equal(named.rows({"t": [2]}).toarray(), [[0, 1, 0]])
    slopes = IID(["b", "a"], weights=[2.0, 3.0], name="slope").bind()
    np.testing.assert_array_equal(slopes.rows().toarray(), [[0, 2], [3, 0]])


def test_values_add_positions_without_data():
    bound = RW2("age", values=range(20, 41)).bind({"age": [22, 40]})
    assert (bound.size, bound.rows({"age": [21]}).toarray().argmax()) == (21, 1)
    with pytest.raises(ValueError, match=r"age has no level 19. Its levels are: 20, .* give values="):
        bound.rows({"age": [19]})


def test_dates_are_positions():
    dates = pd.to_datetime(["2024-01-01", "2024-01-03", "2024-01-09"])
    bound = RW1("date", scale_model=False).bind(pd.DataFrame({"date": dates}))
    days = RW1("day", scale_model=False).bind({"day": [1, 3, 9]})
    np.testing.assert_allclose(bound.precision(sd=1.0).toarray(), days.precision(sd=1.0).toarray())
    plain = RW1("date", scale_model=False).bind({"date": [each.date() for each in dates]})
    np.testing.assert_array_equal(plain.precision(sd=1.0).toarray(), bound.precision(sd=1.0).toarray())
    filled = AR1("date").bind(pd.DataFrame({"date": dates}))
    assert filled.size == 5
    assert filled.coords["date_level"][1] == np.datetime64("2024-01-03")
    np.testing.assert_array_equal(filled.rows().toarray().argmax(axis=1), [0, 1, 4])


def test_times_of_an_autoregression_are_found_despite_rounding():
    times = np.array([0.1, 0.3, 0.7, 0.1 + 0.2])
    bound = AR1("t").bind({"t": times[:3]})
    np.testing.assert_allclose(bound.coords["t_level"], [0.1, 0.3, 0.5, 0.7], rtol=1e-12)
    np.testing.assert_array_equal(bound.rows({"t": times[:3]}).toarray().argmax(axis=1), [0, 1, 3])


# --- fixed effects ----------------------------------------------------------------------------------------------------


def test_default_standard_deviations_of_fixed_effects():
    deviations = Fixed(["1", "x", "x2"]).bind(DATA, unit=3.0, location=7.0).deviations
    slopes = 7.5 / np.array([DATA["x"].std(), DATA["x2"].std()])
    means = np.array([DATA["x"].mean(), DATA["x2"].mean()])
    np.testing.assert_allclose(deviations[1:], slopes, rtol=1e-12)
    assert deviations[0] == pytest.approx(np.sqrt(30.0**2 + 7.0**2 + np.sum((slopes * means) ** 2)))


def test_the_default_level_does_not_depend_on_the_origin_of_a_column():
    """The standard deviation of the predictor at the mean of x is at least 10 units, for any origin of x."""
    for shift in (0.0, 2000.0):
        year = np.arange(5.0) + shift
        bound = Fixed(["1", "year"]).bind({"year": year})
        at_mean = np.array([1.0, year.mean()]) * bound.deviations
        assert np.sqrt((at_mean**2).sum()) >= 10.0
        assert bound.deviations[0] >= bound.deviations[1] * abs(year.mean())


def test_forms_of_fixed_effects():
    matrix = np.column_stack([np.ones(6), DATA["x"]])
    by_name = Fixed(["1", "x"]).bind(FRAME)
    by_matrix = Fixed(matrix, names=["Intercept", "x"]).bind()
    by_frame = Fixed(pd.DataFrame(matrix, columns=["Intercept", "x"])).bind()
    for bound in (by_name, by_matrix, by_frame):
        assert bound.coords["fixed_coefficient"].tolist() == ["Intercept", "x"]
        np.testing.assert_allclose(bound.rows().toarray(), matrix)
        np.testing.assert_allclose(bound.deviations, by_name.deviations, rtol=1e-14)
        np.testing.assert_array_equal(bound.rows({"x": [4.0, 5.0]}).toarray(), [[1, 4], [1, 5]])
    np.testing.assert_array_equal(by_matrix.rows(matrix[:2]).toarray(), matrix[:2])
    only = Fixed("1").bind(FRAME)
    np.testing.assert_array_equal(only.rows(FRAME[:3]).toarray(), np.ones((3, 1)))


@pytest.mark.parametrize("sd", ["flat", np.inf])
def test_flat_coefficients_are_improper(sd):
    bound = Fixed(["1", "x"], sd={"x": sd}).bind(DATA)
    np.testing.assert_array_equal(bound.improper, [[0, 1]])
    assert "x flat. The prior is flat in: x" in bound.describe()
    with pytest.raises(ValueError, match="fixed has no prior predictive distribution, because its prior is flat in: x"):
        bound.simulate(np.random.default_rng(0))


# --- users' terms -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Seasonal(ScaledTerm):
    """Seasonal effects."""

    period: int = 4

    def structure(self, levels):
        n = len(levels)
        sums = sparse.diags_array([np.ones(n)] * self.period, offsets=range(self.period), shape=(n, n)).tocsr()
        sums = sums[: n - self.period + 1]
        patterns = linalg.null_space(sums.toarray()).T
        return Structure((sums.T @ sums,), improper={f"pattern {i}": row for i, row in enumerate(patterns)})


def test_a_term_of_a_user():
    check_term(Seasonal("t", period=3), {"t": np.arange(9)})
    assert Seasonal("t").bind({"t": np.arange(9)}).describe().startswith("t: Seasonal effects. The prior is flat in: p")


@dataclass(frozen=True, eq=False, repr=False)
class Contrasts(ScaledTerm):
    """Independent effects with a sum of zero."""

    def structure(self, levels):
        return Structure((np.diag(1.0 + np.arange(len(levels))),), constraints={"sum to zero": np.ones(len(levels))})


def test_a_constraint_on_a_proper_term():
    check_term(Contrasts("g"), DATA)


def test_a_constraint_on_a_large_proper_term_is_rejected():
    with pytest.raises(ValueError, match="a term with 2001 elements has constraints outside the null space"):
        Contrasts("t").bind({"t": np.arange(2001)})


@dataclass(frozen=True, eq=False, repr=False)
class Singular(ScaledTerm):
    """A walk without its level among the improper directions."""

    def structure(self, levels):
        return Structure((sparse.diags_array([1.0, 1.0, 0.0]),))


def test_a_basis_that_is_singular_in_other_directions_is_rejected():
    with pytest.raises(ValueError, match="the basis of Singular is not positive definite without its constraints"):
        Singular("g").bind(DATA)


@pytest.mark.parametrize("size", [60, 2500])
def test_increments_of_drawn_walks(size):
    """Increments of a walk without scaling are independent Gaussians, by one and by several blocks."""
    bound = RW1("t", scale_model=False).bind({"t": np.arange(size)})
    drawn = np.array([bound.simulate(np.random.default_rng(i), sd=2.0) for i in range(8)])
    np.testing.assert_allclose(drawn.sum(axis=1), 0.0, atol=1e-6)
    increments = np.diff(drawn).ravel() / 2.0
    assert abs((increments**2).mean() - 1) < 5 * np.sqrt(2 / increments.size)
    assert abs((increments[1:] * increments[:-1]).mean()) < 5 / np.sqrt(increments.size)


def test_terms_are_public():
    assert es.terms.RW2 is RW2

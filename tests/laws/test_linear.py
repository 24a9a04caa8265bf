"""Linear predictors: A f is carried along with f, so that a proposal needs no matrix product, and equals A f."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import ellipslice as es
from catalogue import CORRELATED
from ellipslice.likelihoods import Gaussian, LinearPredictor, Logistic, Poisson
from ellipslice.moves import ControlVariables, CoordinateGibbs, Cycle, EllipticalSlice, Local
from ellipslice.posterior import PredictorLikelihood
from statistical.monte_carlo import SEED, compare_gaussian

RNG = np.random.default_rng(0)
A = RNG.standard_normal((40, 3))
LABELS = np.where(RNG.random(40) < 1 / (1 + np.exp(-A @ [1.0, -2.0, 0.5])), 1.0, -1.0)
G = Logistic(LABELS)
PRIOR = es.Dense(CORRELATED, mean=[0.5, -1.0, 0.0])
STACK = es.Stack({"w": PRIOR, "b": es.Diagonal(4.0, mean=0.3)})
BY_NAME = {"w": A, "b": np.ones((40, 1))}
QUICK = {"draws": 60, "warmup": 0, "chains": 2, "seed": 3, "progress": False}


def plain(predictor):
    """Return G of one predictor, computed so that JAX cannot trace it."""
    return float(G(np.asarray(predictor)))


def log_likelihoods(tree):
    """Return g(A f) at every draw, with the product computed again."""
    latents = [tree.posterior[name].values for name in tree.posterior.data_vars]
    flat = np.concatenate([part.reshape(2, -1, int(np.prod(part.shape[2:]))) for part in latents], axis=-1)
    matrix = A if flat.shape[-1] == 3 else np.concatenate(list(BY_NAME.values()), axis=1)
    return np.array([[G(matrix @ f) for f in chain] for chain in flat])


CASES = {
    "dense": (LinearPredictor(A, G), PRIOR),
    "a function": (LinearPredictor(A, lambda predictor: G(predictor)), PRIOR),
    "by name": (LinearPredictor(BY_NAME, G), STACK),
    "a Stack, flat": (LinearPredictor(np.concatenate(list(BY_NAME.values()), axis=1), G), STACK),
    "two axes": (LinearPredictor(A, G), es.Diagonal(np.ones((3, 1)), mean=0.2)),
}


@pytest.mark.parametrize("engine", ["compiled", "host"])
@pytest.mark.parametrize("name", CASES)
def test_what_is_carried_is_the_product(name, engine):
    likelihood, prior = CASES[name]
    tree = es.sample(likelihood, prior, engine=engine, **QUICK)
    np.testing.assert_allclose(tree.sample_stats.total_log_likelihood, log_likelihoods(tree), rtol=1e-10)
    assert tree.posterior.sizes["draw"] == 60
    assert "LinearPredictor(40 x" in tree.attrs["likelihood"]


def test_rounding_does_not_add_up():
    sharp = LinearPredictor(
        A, Gaussian(A @ [1.0, -2.0, 0.5], 1e-3)
    )  # tiny angles, so that the same product is carried through many updates
    tree = es.sample(sharp, PRIOR, draws=100, thin=200, warmup=0, chains=1, seed=3, progress=False)
    expected = [sharp.likelihood(A @ f) for f in tree.posterior.f.values[0]]
    np.testing.assert_allclose(tree.sample_stats.total_log_likelihood.values[0], expected, rtol=1e-7)


def test_any_kind_of_matrix_gives_the_same_chain():
    dense = es.sample(LinearPredictor(A, G), PRIOR, move=es.moves.EllipticalSlice(), **QUICK)
    for other in (scipy.sparse.csr_array(A), scipy.sparse.coo_matrix(A), aslinearoperator(A)):
        tree = es.sample(LinearPredictor(other, G), PRIOR, move=es.moves.EllipticalSlice(), **QUICK)
        np.testing.assert_allclose(tree.posterior.f, dense.posterior.f, rtol=1e-9, atol=1e-9)
        assert tree.attrs["engine"] == "compiled"
    black_box = es.sample(
        LinearPredictor(scipy.sparse.csr_array(A), plain), PRIOR, move=es.moves.EllipticalSlice(), **QUICK
    )
    assert black_box.attrs["engine"] == "host"
    np.testing.assert_allclose(black_box.posterior.f, dense.posterior.f, rtol=1e-9, atol=1e-9)


@pytest.mark.long_cases("compiled")
@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_a_chain_has_the_same_bits_in_any_company(engine):
    options = {**QUICK, "engine": engine, "move": EllipticalSlice()}  # look_ahead changes the default move
    together = es.sample(LinearPredictor(A, G), PRIOR, **{**options, "chains": 4})
    alone = es.sample(LinearPredictor(A, G), PRIOR, **{**options, "chains": [2], "draws": 20, "warmup": 40})
    np.testing.assert_array_equal(alone.posterior.f.values[0], together.posterior.f.values[2, 40:])
    ahead = es.sample(LinearPredictor(A, G), PRIOR, look_ahead=3, **{**options, "chains": [2]})
    np.testing.assert_array_equal(ahead.posterior.f.values[0], together.posterior.f.values[2])


def test_proposals_cost_no_product():
    class Counted(LinearOperator):
        columns = 0

        def __init__(self):
            super().__init__(np.dtype(float), A.shape)

        def _matvec(self, x):
            Counted.columns += 1
            return A @ x

        def _matmat(self, X):
            Counted.columns += X.shape[1]
            return A @ X

    move = es.moves.EllipticalSlice()
    options = {"draws": 2000, "warmup": 0, "chains": 1, "seed": 1, "progress": False}
    tree = es.sample(LinearPredictor(Counted(), G), PRIOR, move=move, **options)
    assert tree.attrs["evaluations"] > 4000
    # One product for each update of whole blocks, and a few for the first checks.
    assert Counted.columns < 2000 * 1.5 + 200


def test_starts_and_what_is_kept_are_the_users_latents():
    start = {"w": np.array([0.1, 0.2, 0.3]), "b": 0.7}
    tree = es.sample(
        LinearPredictor(BY_NAME, G),
        STACK,
        initial=start,
        keep=lambda w, b: {"first": w[0], "b": b},
        **{**QUICK, "draws": 3},
    )
    assert dict(tree.posterior.sizes) == {"chain": 2, "draw": 3}
    packed = PredictorLikelihood(LinearPredictor(BY_NAME, G), STACK).pack(start)
    np.testing.assert_allclose(packed[4:], A @ (start["w"] - PRIOR.mean) + 0.4)
    assert LinearPredictor(BY_NAME, G)(start) == pytest.approx(float(G(A @ start["w"] + 0.7)))
    singular = es.LowRank(np.array([[1.0], [1.0], [0.0]]))
    with pytest.raises(ValueError, match="not a possible draw from this prior"):
        es.sample(LinearPredictor(A, G), singular, initial=np.array([1.0, 2.0, 0.0]), **QUICK)


@pytest.mark.statistical
def test_a_linear_gaussian_model_has_its_posterior():
    y, rows = np.linspace(-1, 1, 8), A[:8]
    gain = np.linalg.solve(rows @ CORRELATED @ rows.T + 0.36 * np.eye(8), rows @ CORRELATED).T
    tree = es.sample(
        LinearPredictor(rows, Gaussian(y, 0.6)), PRIOR, draws=20_000, warmup=500, seed=SEED + 8, progress=False
    )
    mean = PRIOR.mean + gain @ (y - rows @ PRIOR.mean)
    compare_gaussian(tree.posterior.f.values, mean, CORRELATED - gain @ rows @ CORRELATED, "LinearPredictor")


def test_a_mean_left_out_of_the_predictor_is_caught(monkeypatch):
    # An injected bug, which the test above that computes the product again must find.
    init = PredictorLikelihood.__init__

    def forgets(self, *arguments, **options):
        init(self, *arguments, **options)
        object.__setattr__(self, "shift", None)

    monkeypatch.setattr(PredictorLikelihood, "__init__", forgets)
    with pytest.raises(AssertionError):
        test_what_is_carried_is_the_product("dense", "compiled")


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: LinearPredictor(A, Logistic), TypeError, r"class Logistic.*Logistic\(y\)"),
        (lambda: LinearPredictor(A, 3.0), TypeError, "function of the predictor"),
        (lambda: LinearPredictor(A[0], G), ValueError, r"shape \(3,\)"),
        (lambda: LinearPredictor(np.full((40, 3), np.nan), G), ValueError, "finite"),
        (lambda: LinearPredictor(np.full((40, 3), "x"), G), TypeError, "real numbers"),
        (lambda: LinearPredictor({}, G), ValueError, "empty"),
        (lambda: LinearPredictor({"w": A, "b": np.ones((39, 1))}, G), ValueError, "different numbers of rows"),
        (lambda: LinearPredictor(A[:39], G), ValueError, r"39 rows.*\(40,\)"),
        (
            lambda: es.sample(LinearPredictor(A, G), es.Diagonal(np.ones(4)), **QUICK),
            ValueError,
            r"4 elements.*\(40, 4\)",
        ),
        (lambda: es.sample(LinearPredictor({"w": A}, G), STACK, **QUICK), ValueError, "latents are w, b"),
        (
            lambda: es.sample(LinearPredictor({**BY_NAME, "b": A}, G), STACK, **QUICK),
            ValueError,
            r"design\['b'\].*1 elements",
        ),
        (
            lambda: es.sample(LinearPredictor(A, G), PRIOR, move=Local.contiguous(1), **QUICK),
            TypeError,
            r"lambda f: g\(A @ f\)",
        ),
        (lambda: LinearPredictor(A, Poisson(np.ones((40, 1)))), ValueError, "observations of shape"),
    ],
)
def test_what_does_not_fit_is_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()


def kernel(x, y):
    return np.exp(-np.abs(x[:, None] - y))


INPUTS = np.arange(3.0)
GRAM = es.Dense(kernel(INPUTS, INPUTS))


@pytest.mark.parametrize(
    "move",
    [
        Local([[0, 1], [2]]),
        Local.kmeans(INPUTS, 2),
        Local.random(2),
        Local.contiguous(2),
        Local([[0]], partial=True),
        CoordinateGibbs(),
        Cycle(Local([[0, 1], [2]]), EllipticalSlice()),
    ],
    ids=repr,
)
def test_blocks_are_refused_for_what_is_carried_and_not_for_their_number(move):
    # The products were once counted as elements: "blocks leave out 40 of 43 elements, the first of them index 3".
    with pytest.raises(
        TypeError, match=r"Local needs .*likelihoods.LinearPredictor has no `condition`.*lambda f: g\(A @ f\)"
    ):
        es.sample(LinearPredictor(A, G), GRAM, move=move, **QUICK)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ControlVariables.at_values([3]), "index 3.*indices 0 to 2"),  # the first of the products
        (lambda: ControlVariables(kernel, np.arange(4.0), [0.0]), "4 inputs, but the prior has 3 elements"),
    ],
)
def test_control_variables_are_among_the_values_of_the_prior(make, says):
    with pytest.raises(ValueError, match=says):
        es.sample(LinearPredictor(A, G), GRAM, move=make(), **QUICK)


@pytest.mark.parametrize(
    "move", [ControlVariables.at_values([0, 2]), ControlVariables(kernel, INPUTS, [0.5, 1.5])], ids=repr
)
def test_control_variables_leave_f_and_its_products_together(move):
    options = {**QUICK, "engine": "host"}
    tree = es.sample(LinearPredictor(A, G), GRAM, move=move, **options)
    plain = es.sample(lambda f: G(A @ f), GRAM, move=move, **options)
    # The same random numbers, the same draws.
    np.testing.assert_allclose(tree.posterior.f, plain.posterior.f, atol=1e-9)
    assert np.ptp(tree.posterior.f.values) > 0

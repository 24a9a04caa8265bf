"""Bad input to priors with structure: what was given, what was expected, what to do."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse
from sklearn.gaussian_process import kernels as sklearn_kernels
from tinygp import kernels as tinygp_kernels
from tinygp.kernels import quasisep

import ellipslice as es

CHAIN = np.diag(np.full(4, 2.5)) - np.eye(4, k=1) - np.eye(4, k=-1)
PATH = np.eye(4, k=1) + np.eye(4, k=-1)
ALONE = np.zeros((3, 3))
ALONE[0, 1] = ALONE[1, 0] = 1.0
WALK = np.diff(np.eye(5), axis=0).T @ np.diff(np.eye(5), axis=0)
GRID = {"shape": 8, "spacing": 1.0}


def gaussian(lag):
    return np.exp(-0.5 * np.sum(lag**2, axis=-1))


def box(lag):
    """Return a function that is not a covariance in two dimensions, nor on any periodic grid."""
    return (np.abs(lag) < 3).all(axis=-1).astype(float)


CASES = {
    # Stationary
    "a kernel that is an array": (lambda: es.Stationary(np.eye(3), 3, 1.0), TypeError, "kernel & function & ndarray"),
    "a kernel's class": (lambda: es.Stationary(tinygp_kernels.Matern32, 3, 1.0), TypeError, "the class Matern32"),
    "a kernel of one lag": (lambda: es.Stationary(lambda lag: 1.0, **GRID), ValueError, "shape () & expected & norm"),
    "a kernel that keeps the axis": (lambda: es.Stationary(np.exp, **GRID), ValueError, "expected & last axis"),
    "a kernel that is NaN": (lambda: es.Stationary(lambda lag: np.nan * lag[..., 0], **GRID), ValueError, "finite"),
    "a kernel infinite at 0": (
        lambda: es.Stationary(lambda lag: np.where(lag[..., 0] == 0, np.inf, 1.0), **GRID),
        ValueError,
        "finite & lag 0",
    ),
    "a kernel that is 0": (
        lambda: es.Stationary(lambda lag: 0 * lag[..., 0], **GRID),
        ValueError,
        "variance & positive",
    ),
    "a kernel that is not even": (
        lambda: es.Stationary(lambda lag: np.exp(-np.abs(lag[..., 0] - 0.3)), **GRID),
        ValueError,
        "opposite lag & even",
    ),
    "an indefinite embedding": (
        lambda: es.Stationary(box, (6, 6), 1.0),
        ValueError,
        "positive & error is & Allow more memory with limit= & Kronecker & Dense",
    ),
    "a limit below the grid": (lambda: es.Stationary(gaussian, 10, 1.0, limit=5), ValueError, "limit is 5 & 20 points"),
    "no tolerance": (lambda: es.Stationary(gaussian, 10, 1.0, tolerance=0), ValueError, "tolerance & at least & 0"),
    "a kernel of two inputs": (
        lambda: es.Stationary(lambda x, y: np.exp(-np.abs(x - y)), **GRID),
        TypeError,
        "one argument & lags & (50, 1)",
    ),
    "a kernel that has not decayed": (
        lambda: es.Stationary(lambda lag: gaussian(lag / 1000), 50, 1.0, limit=400),
        ValueError,
        "decayed & 400 & tolerance=",
    ),
    "a kernel that is not stationary": (
        lambda: es.Stationary(tinygp_kernels.DotProduct() + 1.0, **GRID),
        ValueError,
        "not stationary & Dense",
    ),
    "scikit-learn's, not stationary": (
        lambda: es.Stationary(sklearn_kernels.DotProduct(), **GRID),
        ValueError,
        "not stationary & Dense",
    ),
    "four axes": (lambda: es.Stationary(gaussian, (2, 2, 2, 2), 1.0), ValueError, "shape & 1, 2 or 3 & (2, 2, 2, 2)"),
    "an empty grid": (lambda: es.Stationary(gaussian, (3, 0), 1.0), ValueError, "shape & positive & (3, 0)"),
    "half a point": (lambda: es.Stationary(gaussian, 2.5, 1.0), ValueError, "shape & whole & 2.5"),
    "no spacing": (lambda: es.Stationary(gaussian, 3, 0.0), ValueError, "spacing & positive & 0.0"),
    "a spacing too many": (lambda: es.Stationary(gaussian, 3, [1.0, 1.0]), ValueError, "spacing & 1 axes"),
    "a mean of another grid": (
        lambda: es.Stationary(gaussian, (2, 3), 1.0, np.ones(6)),
        ValueError,
        "mean & (6,) & (2, 3)",
    ),
    # Kronecker
    "no factor": (lambda: es.Kronecker(), TypeError, "at least one & covariance"),
    "a factor that is not square": (lambda: es.Kronecker(np.ones((2, 3))), ValueError, "(2, 3) & square & factor 0"),
    "a factor with a mean": (lambda: es.Kronecker(CHAIN, es.Diagonal([1.0], 2.0)), ValueError, "factor 1 & mean="),
    "a factor that draws by itself": (
        lambda: es.Kronecker(es.FromDraws(lambda rng: rng.standard_normal(3), 3)),
        TypeError,
        "factor 0 & unwhiten",
    ),
    "factors in a list": (lambda: es.Kronecker([CHAIN, np.eye(3)]), ValueError, "factor 0 & Kronecker(*factors)"),
    "a stack as a factor": (lambda: es.Kronecker(es.Stack({"a": es.Diagonal(1.0)})), TypeError, "factor 0 & Stack"),
    # Sum
    "no term": (lambda: es.Sum(), TypeError, "at least one"),
    "a matrix as a term": (lambda: es.Sum(CHAIN), TypeError, "term 0 & ndarray & Dense"),
    "terms in a list": (lambda: es.Sum([es.Diagonal(1.0)]), TypeError, "term 0 & list & Sum(*terms)"),
    "terms of two shapes": (
        lambda: es.Sum(es.Diagonal(np.ones(3)), es.Diagonal(np.ones((1, 3)))),
        ValueError,
        "term 1 & (1, 3) & (3,)",
    ),
    "a stack as a term": (lambda: es.Sum(es.Stack({"a": es.Diagonal(1.0)})), TypeError, "term 0 & Stack"),
    # LowRank
    "a negative diagonal": (lambda: es.LowRank(np.ones((3, 1)), diagonal=[1, 1, -2]), ValueError, "diagonal & -2"),
    "a diagonal too long": (
        lambda: es.LowRank(np.ones((3, 1)), diagonal=np.ones(4)),
        ValueError,
        "diagonal & (4,) & (3,)",
    ),
    "no frequencies": (lambda: es.LowRank.fourier_features([0.0, 1.0], 1.0, count=0), ValueError, "count & 0"),
    "a length scale of 0": (
        lambda: es.LowRank.fourier_features([0.0, 1.0], 0.0),
        ValueError,
        "length_scale & positive",
    ),
    "length scales too many": (
        lambda: es.LowRank.fourier_features(np.ones((4, 2)), [1.0, 1.0, 1.0]),
        ValueError,
        "length_scale & (3,) & column",
    ),
    "inducing points of another dimension": (
        lambda: es.LowRank.inducing_points(tinygp_kernels.Matern32(), np.ones((5, 2)), np.ones((3, 1))),
        ValueError,
        "(5, 2) & (3, 1) & columns",
    ),
    "an inducing kernel of one input": (
        lambda: es.LowRank.inducing_points(lambda x, y: np.ones(3), np.ones(5), np.arange(3.0)),
        ValueError,
        "kernel & (3,) & (3, 3)",
    ),
    "an inducing kernel that is no covariance": (
        lambda: es.LowRank.inducing_points(lambda x, y: 1.0 + np.abs(x[:, None] - y), np.arange(4.0), [0.0]),
        ValueError,
        "semi-definite",
    ),
    # SparsePrecision
    "not square": (lambda: es.SparsePrecision(scipy.sparse.csr_array(np.ones((2, 3)))), ValueError, "(2, 3) & square"),
    "not symmetric": (
        lambda: es.SparsePrecision(scipy.sparse.csr_array(np.triu(CHAIN))),
        ValueError,
        "not symmetric & [0, 1] & triangle",
    ),
    "not finite": (lambda: es.SparsePrecision(scipy.sparse.csr_array([[np.nan]])), ValueError, "finite"),
    "complex": (lambda: es.SparsePrecision(scipy.sparse.csr_array([[1j]])), TypeError, "real & complex"),
    "not positive definite": (
        lambda: es.SparsePrecision(CHAIN - 2.0 * np.eye(4)),
        ValueError,
        "not positive definite & signs",
    ),
    "a negative diagonal entry": (
        lambda: es.SparsePrecision(np.diag([1.0, -1.0])),
        ValueError,
        "[1, 1] & -1 & positive",
    ),
    "a value without a precision": (lambda: es.SparsePrecision(np.diag([1.0, 0.0])), ValueError, "[1, 1] & neighbours"),
    "singular": (lambda: es.SparsePrecision(WALK), ValueError, "singular & constant & null space"),
    "singular in an unknown way": (
        lambda: es.SparsePrecision(np.outer([1.0, 2.0], [1.0, 2.0]) + 1e-17),
        ValueError,
        "not positive definite & null_space",
    ),
    "a null space that is none": (
        lambda: es.SparsePrecision(WALK, constraints="null space", null_space=np.arange(5.0)),
        ValueError,
        "null_space[:, 0] & not 0",
    ),
    "a null space of another size": (
        lambda: es.SparsePrecision(WALK, null_space=np.ones(4)),
        ValueError,
        "null_space & (5, K)",
    ),
    "constraints that miss the null space": (
        lambda: es.SparsePrecision(WALK, constraints=[1.0, -1.0, 0.0, 0.0, 0.0]),
        ValueError,
        "1 constraint & not fix & null space",
    ),
    "one constraint for two islands": (
        lambda: es.SparsePrecision(scipy.sparse.block_diag([WALK, WALK]), constraints=np.ones(10)),
        ValueError,
        "1 constraint & 2 directions & component",
    ),
    "constraints of another size": (
        lambda: es.SparsePrecision(CHAIN, constraints=np.ones(3)),
        ValueError,
        "(1, 3) & (M, 4)",
    ),
    "constraints that repeat": (
        lambda: es.SparsePrecision(CHAIN, constraints=np.ones((2, 4))),
        ValueError,
        "independent",
    ),
    "constraints without a need": (
        lambda: es.SparsePrecision(CHAIN, constraints="null space"),
        ValueError,
        "no null space",
    ),
    "constraints in another word": (
        lambda: es.SparsePrecision(CHAIN, constraints="zero"),
        ValueError,
        "'zero' & null space",
    ),
    "another factorisation": (
        lambda: es.SparsePrecision(CHAIN, cholesky="lapack"),
        ValueError,
        "'lapack' & scipy & cholmod",
    ),
    "another shape": (lambda: es.SparsePrecision(CHAIN, shape=(2, 3)), ValueError, "(2, 3) & 6 & 4"),
    "a walk of no steps": (lambda: es.SparsePrecision.random_walk(1), ValueError, "size & above & 1"),
    "a walk of order 3": (lambda: es.SparsePrecision.random_walk(9, order=3), ValueError, "order & 1 or 2 & 3"),
    "a walk of no precision": (
        lambda: es.SparsePrecision.random_walk(9, precision=0.0),
        ValueError,
        "precision & positive",
    ),
    "a graph with a node alone": (
        lambda: es.SparsePrecision.car(ALONE),
        ValueError,
        "1 node & without neighbours & node 2 & Stack",
    ),
    "a graph with a loop": (lambda: es.SparsePrecision.car(PATH + np.eye(4)), ValueError, "loop & node 0"),
    "a directed graph": (
        lambda: es.SparsePrecision.car(np.eye(4, k=1)),
        ValueError,
        "not symmetric & graph.T",
    ),
    "negative weights": (lambda: es.SparsePrecision.car(-PATH), ValueError, "graph & at least 0"),
    "a graph that is a list of edges": (
        lambda: es.SparsePrecision.car([[0, 1], [1, 2], [2, 3]]),
        ValueError,
        "graph & (3, 2) & (N, N)",
    ),
    "a correlation above 1": (lambda: es.SparsePrecision.car(PATH, 1.5), ValueError, "correlation & 1.5"),
    "a smoothness that is none": (
        lambda: es.SparsePrecision.matern((3, 3), 1.0, 1.0, smoothness=1.5),
        ValueError,
        "smoothness & 1, 2, 3 & 1.5 & Stationary",
    ),
    "a lattice of four axes": (
        lambda: es.SparsePrecision.matern((2, 2, 2, 2), 1.0, 1.0, smoothness=1),
        ValueError,
        "shape & 1, 2 or 3",
    ),
    # Markov
    "times out of order": (
        lambda: es.Markov(quasisep.Exp(1.0), [0.0, 2.0, 1.0]),
        ValueError,
        "times[1] & times[2] & np.unique",
    ),
    "a time twice": (
        lambda: es.Markov(quasisep.Exp(1.0), [0.0, 1.0, 1.0]),
        ValueError,
        "increase & both 1 & np.unique",
    ),
    "a time that is NaN": (
        lambda: es.Markov(quasisep.Exp(1.0), [0.0, np.nan]),
        ValueError,
        "times & finite & times[1]",
    ),
    "times in two columns": (
        lambda: es.Markov(quasisep.Exp(1.0), np.ones((3, 2))),
        ValueError,
        "times & (3, 2) & (N,)",
    ),
    "dates": (
        lambda: es.Markov(quasisep.Exp(1.0), np.array(["2020-01-01", "2020-01-02"], "datetime64[D]")),
        TypeError,
        "dates & numbers & timedelta64",
    ),
    "no times": (lambda: es.Markov(quasisep.Exp(1.0), []), ValueError, "times & (0,) & (N,)"),
    "another kernel of tinygp": (
        lambda: es.Markov(tinygp_kernels.Matern32(1.0), [0.0, 1.0]),
        TypeError,
        "quasisep & Matern32 & same names & Dense",
    ),
    "a function for a kernel": (lambda: es.Markov(gaussian, [0.0, 1.0]), TypeError, "quasisep & function & Dense"),
    "a class for a kernel": (lambda: es.Markov(quasisep.Exp, [0.0, 1.0]), TypeError, "instance & the class Exp"),
    "a walk at its start": (
        lambda: es.Markov(es.Markov.random_walk(), [0.0, 1.0]),
        ValueError,
        "variance 0 & times[0] & start=",
    ),
    "a walk before its start": (
        lambda: es.Markov(es.Markov.random_walk(), [-1.0, 1.0]),
        ValueError,
        "not finite|variance & walk",
    ),
    "a walk of scale 0": (lambda: es.Markov.random_walk(0.0), ValueError, "scale & positive & 0.0"),
    "a length scale that is NaN": (lambda: es.Markov(quasisep.Exp(np.nan), [0.0, 1.0]), ValueError, "kernel & finite"),
    # blocks
    "a block outside": (lambda: es.Diagonal(np.ones(3)).condition([1, 3]), ValueError, "index 3 & 0 to 2"),
    "a block from behind": (lambda: es.Diagonal(np.ones(3)).condition([-1]), ValueError, "index -1 & 0 to 2"),
    "a block with an index twice": (lambda: es.Dense(CHAIN).condition([1, 1]), ValueError, "twice & np.unique"),
    "a mask for a block": (
        lambda: es.Dense(CHAIN).condition(np.ones(4, dtype=bool)),
        ValueError,
        "bool & np.flatnonzero",
    ),
    "an empty block": (lambda: es.Dense(CHAIN).condition([]), ValueError, "block & (0,)"),
    "a block too large": (
        lambda: es.SparsePrecision(scipy.sparse.eye_array(6000)).condition(np.arange(5500)),
        ValueError,
        "5500 & dense & 5000",
    ),
    "a block that spans too much": (
        lambda: es.Markov(quasisep.Exp(1.0), np.arange(6000.0)).condition([0, 5999]),
        ValueError,
        "0 to 5999 & dense & 5000",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_priors(name):
    make, kind, words = CASES[name]
    with pytest.raises(kind) as error:
        make()
    message = " ".join([str(error.value), *getattr(error.value, "__notes__", [])]).lower()
    for word in words.split(" & "):
        assert any(choice.lower() in message for choice in word.split("|")), f"{word!r} is not in: {message}"


MISSING = {
    "Stationary": (lambda: es.Stationary(gaussian, 3, 1.0), ["whiten", "log_density", "condition"], "Dense"),
    "Sum": (lambda: es.Sum(es.Diagonal(np.ones(3))), ["whiten", "log_density", "condition"], "Stack"),
    "FromDraws": (
        lambda: es.FromDraws(lambda rng: rng.standard_normal(3), 3),
        ["whiten", "log_density", "condition"],
        "EllipticalSlice",
    ),
    "Kronecker of a grid": (
        lambda: es.Kronecker(CHAIN, es.Stationary(gaussian, 3, 1.0)),
        ["whiten", "log_density", "condition"],
        "EllipticalSlice",
    ),
    "Kronecker, singular": (lambda: es.Kronecker(np.ones((2, 2)), CHAIN), ["condition"], "Dense"),
    "LowRank, a 0 on its diagonal": (
        lambda: es.LowRank(np.ones((2, 1)), diagonal=[0.0, 1.0]),
        ["whiten", "log_density", "condition"],
        "positive everywhere",
    ),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_ability_names_the_alternative(name):
    make, capabilities, alternative = MISSING[name]
    prior = make()
    for capability in capabilities:
        assert capability not in prior.capabilities
        with pytest.raises(TypeError, match=f"no `{capability}`") as error:
            getattr(prior, capability)([0] if capability == "condition" else np.zeros(prior.size))
        assert alternative in str(error.value)


@pytest.mark.parametrize(
    ("package", "make", "words"),
    [
        ("tinygp", lambda: es.Markov(None, [0.0]), ["tinygp", "ellipslice[gp]"]),
        ("tinygp", lambda: es.Markov.random_walk(), ["tinygp", "ellipslice[gp]"]),
        ("cvxopt", lambda: es.SparsePrecision(CHAIN, cholesky="cholmod"), ["cvxopt", "ellipslice[cholmod]", "scipy"]),
    ],
)
def test_a_package_that_is_not_there(monkeypatch, package, make, words):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError) as error:
        make()
    assert all(word in str(error.value) for word in words)


def test_a_sparse_factor_is_not_compiled():
    import jax

    prior = es.SparsePrecision(CHAIN)
    assert not prior.traceable
    with pytest.raises(TypeError, match="compiled code"):
        jax.jit(prior.unwhiten)(np.zeros(4))

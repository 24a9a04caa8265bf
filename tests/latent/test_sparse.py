"""Sparse Cholesky factorisations against dense algebra, for many patterns and both solvers."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.caching import CacheImpl
from scipy import linalg, sparse

import ellipslice.latent.sparse
from ellipslice.latent.sparse import products
from ellipslice.latent.sparse.analysis import SOLVERS, analyse
from ellipslice.latent.sparse.compiled import compiled
from ellipslice.latent.sparse.ordering import elimination_order
from ellipslice.priors.parts.sparse_cholesky import NotPositiveDefiniteError


def path(size):
    return sparse.diags_array([-np.ones(size - 1), np.full(size, 2.1), -np.ones(size - 1)], offsets=[-1, 0, 1])


def lattice(side):
    eye = sparse.eye_array(side)
    return sparse.kron(path(side), eye) + sparse.kron(eye, path(side))


def with_dense_rows(matrix, count):
    size = matrix.shape[0]
    border = sparse.csc_array(np.random.default_rng(count).normal(0.0, 0.1, (size, count)))
    return sparse.block_array([[matrix, border], [border.T, sparse.eye_array(count) * size]])


def random_pattern(size, entries, seed):
    rng = np.random.default_rng(seed)
    at = rng.integers(size, size=(2, entries))
    factor = sparse.csc_array((rng.normal(size=entries), at), shape=(size, size))
    return factor @ factor.T + 0.5 * sparse.eye_array(size)


def crossed_effects(rows, levels):
    rng = np.random.default_rng(rows)
    parts = [
        sparse.csr_array((np.ones(rows), (np.arange(rows), rng.integers(n, size=rows))), (rows, n)) for n in levels
    ]
    design = sparse.hstack([*parts, np.ones((rows, 1))])
    return design.T @ design + sparse.eye_array(sum(levels) + 1)


MATRICES = {
    "1x1": sparse.eye_array(1) * 3.0,
    "diagonal": sparse.diags_array([1.0, 4.0, 0.25, 9.0, 2.0]),
    "path": path(40),
    "lattice": lattice(13),
    "lattice with dense rows": with_dense_rows(lattice(21), 3),
    "arrow": with_dense_rows(sparse.eye_array(300) * 2.0, 1),
    "dense": np.ones((23, 23)) + np.eye(23),
    "blocks": sparse.kron(sparse.eye_array(9), np.ones((5, 5)) + np.eye(5)),
    "disconnected": sparse.block_diag([lattice(5), path(4), sparse.eye_array(3), lattice(4)]),
    "crossed effects": crossed_effects(150, (60, 13)),
    "sparse random": random_pattern(80, 100, 1),
    "denser random": random_pattern(70, 300, 2),
    "nearly dense random": random_pattern(30, 300, 3),
}
EVERY = pytest.mark.parametrize("name", MATRICES)
BOTH = pytest.mark.parametrize("solver", SOLVERS)


def entries_of(matrix, seed=0):
    """Return rows, columns and values of the lower triangle in a random order."""
    part = sparse.tril(sparse.csc_array(matrix)).tocoo()
    order = np.random.default_rng(seed).permutation(part.nnz)
    return part.row[order], part.col[order], part.data[order]


def example(name, solver="numba"):
    """Return the analysis of a matrix, its values, and the matrix as a dense array."""
    matrix = sparse.csc_array(MATRICES[name])
    rows, cols, values = entries_of(matrix)
    return analyse(rows, cols, matrix.shape[0], solver), values, matrix.toarray()


@BOTH
@EVERY
def test_solves_products_and_determinant(name, solver):
    analysis, values, dense = example(name, solver)
    factor = analysis.factorise(values)
    size = len(dense)
    eye = np.eye(size)
    unwhitened = factor.unwhiten(eye)
    close = {"rtol": 1e-9, "atol": 1e-11}
    np.testing.assert_allclose(factor.log_determinant, np.linalg.slogdet(dense)[1], rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(unwhitened @ unwhitened.T, np.linalg.inv(dense), **close)
    np.testing.assert_allclose(factor.whiten(unwhitened), eye, **close)
    np.testing.assert_allclose(factor.half_solve(eye), unwhitened.T, **close)
    np.testing.assert_allclose(factor.solve(eye), np.linalg.inv(dense), **close)


@BOTH
@EVERY
def test_selected_inverse(name, solver):
    analysis, values, dense = example(name, solver)
    rows, cols, _ = entries_of(MATRICES[name])
    expected = np.linalg.inv(dense)[rows, cols]
    np.testing.assert_allclose(analysis.factorise(values).selected_inverse(), expected, rtol=1e-9, atol=1e-13)


@BOTH
@EVERY
def test_quadratic_form_and_single_vectors(name, solver):
    analysis, values, dense = example(name, solver)
    factor = analysis.factorise(values)
    vectors = np.random.default_rng(4).normal(size=(len(dense), 3))
    x = vectors[:, 1]
    np.testing.assert_allclose(analysis.quadratic(values, x), x @ dense @ x, rtol=1e-12)
    for method in (factor.solve, factor.unwhiten, factor.whiten, factor.half_solve):
        before = vectors.copy()
        assert method(x).shape == x.shape
        assert method(vectors).shape == vectors.shape
        np.testing.assert_allclose(method(vectors)[:, 1], method(x), rtol=1e-13, atol=1e-14)
        np.testing.assert_array_equal(vectors, before)


@BOTH
@pytest.mark.parametrize("name", ["lattice", "crossed effects", "lattice with dense rows"])
def test_another_factorisation_has_the_same_bits_as_a_new_analysis(name, solver):
    analysis, values, dense = example(name, solver)
    b = np.random.default_rng(5).normal(size=len(dense))
    others = values * np.where(entries_of(MATRICES[name])[0] == entries_of(MATRICES[name])[1], 1.5, 0.9)
    first = analysis.factorise(values)
    results = results_of(first, b)
    again = analysis.factorise(others)
    assert not np.array_equal(again.solve(b), results[0])
    for mine, expected in zip(results_of(first, b), results, strict=True):  # factors are independent
        np.testing.assert_array_equal(mine, expected)
    del first
    fresh = example(name, solver)[0].factorise(others)
    for factor in (analysis.factorise(others), fresh):
        for mine, expected in zip(results_of(factor, b), results_of(again, b), strict=True):
            np.testing.assert_array_equal(mine, expected)


def results_of(factor, b):
    methods = (factor.solve, factor.unwhiten, factor.whiten, factor.half_solve)
    return [*(method(b) for method in methods), factor.selected_inverse(), factor.log_determinant]


@BOTH
def test_pickling(solver):
    analysis, values, dense = example("lattice", solver)
    factor = analysis.factorise(values)
    b = np.random.default_rng(6).normal(size=len(dense))
    buffers = []
    data = pickle.dumps((analysis, factor), protocol=5, buffer_callback=buffers.append)
    # Executors such as Dask's return arrays that cannot be written.
    analysis_copy, factor_copy = pickle.loads(data, buffers=[bytes(each) for each in buffers])
    for copy in (factor_copy, analysis_copy.factorise(values)):
        for mine, expected in zip(results_of(copy, b), results_of(factor, b), strict=True):
            np.testing.assert_array_equal(mine, expected)
    assert analysis_copy.quadratic(values, b) == analysis.quadratic(values, b)


@BOTH
def test_several_threads_share_an_analysis(solver):
    analysis, values, dense = example("lattice", solver)
    b = np.ones(len(dense))
    expected = [analysis.factorise(values * scale).solve(b) for scale in range(1, 9)]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda scale: analysis.factorise(values * scale).solve(b), [*range(1, 9)] * 20)
        for mine, each in zip(found, expected * 20, strict=True):
            np.testing.assert_array_equal(mine, each)


def test_nothing_is_compiled_twice():
    """Arrays of other layouts and dtypes are copied, because numba compiles a function for each combination."""
    analysis, values, dense = example("lattice")
    factor = analysis.factorise(values)
    expected = factor.solve(np.ones(len(dense)))
    fixed = values.copy()
    fixed.flags.writeable = False
    strided = np.repeat(values, 2)[::2]
    for given in (fixed, strided, list(values)):
        np.testing.assert_array_equal(analysis.factorise(given).solve(np.ones(len(dense), dtype=int)), expected)
    np.testing.assert_array_equal(factor.solve(np.ones((len(dense), 2), order="F"))[:, 1], expected)
    compiled_functions = [
        each for each in vars(products).values() if isinstance(each, numba.core.registry.CPUDispatcher)
    ]
    assert len(compiled_functions) >= 5
    assert all(len(each.signatures) <= 1 for each in compiled_functions)


@BOTH
@pytest.mark.parametrize("change", [-5.0, -2.2, np.nan, np.inf])
def test_not_positive_definite(solver, change):
    analysis, values, dense = example("lattice", solver)
    rows, cols, _ = entries_of(MATRICES["lattice"])
    values[(rows == 7) & (cols == 7)] += change if change != -2.2 else -dense[7, 7]
    with pytest.raises(NotPositiveDefiniteError):
        analysis.factorise(values)
    assert np.isfinite(analysis.factorise(example("lattice")[1]).log_determinant)


@BOTH
def test_singular_up_to_rounding_error(solver):
    """The structure of an intrinsic random walk has a null space, and its last pivot is a rounding error."""
    structure = sparse.csc_array(path(50) - 0.1 * sparse.eye_array(50)).tolil()
    structure[0, 0] = structure[49, 49] = 1.0
    rows, cols, values = entries_of(structure)
    with pytest.raises(NotPositiveDefiniteError):
        analyse(rows, cols, 50, solver).factorise(values / 3.0)


def test_the_order_keeps_the_factor_sparse():
    """On a lattice the factor has less than half the entries of a band matrix. Dense rows are last."""
    side = 40
    rows, cols, _ = entries_of(lattice(side))
    assert _entries_of_factor(lattice(side), elimination_order(rows, cols, side**2)) < 0.4 * side**3
    bordered = with_dense_rows(lattice(side), 2)
    rows, cols, _ = entries_of(bordered)
    order = elimination_order(rows, cols, side**2 + 2)
    assert set(order[-2:]) == {side**2, side**2 + 1}
    assert sorted(order) == list(range(side**2 + 2))


def _entries_of_factor(matrix, order):
    dense = sparse.csc_array(matrix).toarray()[np.ix_(order, order)]
    return np.count_nonzero(np.abs(linalg.cholesky(dense, lower=True)) > 0)


def test_a_wrong_sign_in_the_selected_inverse_is_found(monkeypatch):
    source = Path(products.__file__).read_text(encoding="utf8")
    for right, wrong in (
        ("scale * scale - total", "scale * scale + total"),
        ("dense[out + i] -= (", "dense[out + i] += ("),
    ):
        assert source.count(right) == 1
        changed: dict = {}
        exec(source.replace(right, wrong), changed)
        changed["_invert_supernode"] = changed["_invert_supernode"].py_func
        monkeypatch.setattr(products, "selected_inverse", changed["selected_inverse"].py_func)
        with pytest.raises(AssertionError):
            test_selected_inverse("dense", "numba")
    changed["_invert_supernode"] = products._invert_supernode
    test_selected_inverse("dense", "numba")


WRONG = [
    ({"solver": "qdldl"}, ValueError, r"solver must be one of \('numba', 'cholmod'\), but it is 'qdldl'"),
    ({"size": 0}, ValueError, "size must be at least 1"),
    ({"rows": [0, 1, 5]}, ValueError, r"rows\[2\] = 5 is not a row\. Expected 0 to 1"),
    ({"rows": [0, 0, 1], "cols": [0, 1, 1]}, ValueError, r"cols\[1\] = 1 is not in the lower triangle"),
    ({"rows": [0, 1]}, ValueError, "rows and cols have 2 and 3 elements"),
    ({"rows": [0.0, 1.0, 1.0]}, TypeError, r"rows must be whole numbers, shape \(entries,\)"),
    ({"rows": [0, 1, 1], "cols": [0, 1, 1]}, ValueError, "contain an entry more than once"),
    ({"rows": [0, 1], "cols": [0, 0]}, ValueError, "no diagonal entry in row 1"),
]


@pytest.mark.parametrize(("change", "error", "message"), WRONG, ids=[row[2] for row in WRONG])
def test_wrong_patterns(change, error, message):
    with pytest.raises(error, match=message):
        analyse(**{"rows": [0, 1, 1], "cols": [0, 0, 1], "size": 2} | change)


@BOTH
def test_wrong_lengths(solver):
    analysis = analyse([0, 1, 1], [0, 0, 1], 2, solver)
    factor = analysis.factorise([2.0, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"values has shape \(2,\). Expected 3 in the first axis"):
        analysis.factorise([2.0, 1.0])
    with pytest.raises(ValueError, match=r"the right-hand side has shape \(3,\). Expected 2"):
        factor.solve(np.ones(3))
    with pytest.raises(ValueError, match=r"shape \(3,\). Expected 2"):
        factor.whiten(np.ones(3))
    with pytest.raises(ValueError, match=r"x has shape \(1,\). Expected 2"):
        analysis.quadratic([2.0, 1.0, 2.0], np.ones(1))


@pytest.mark.parametrize(
    ("package", "solver", "words"),
    [
        ("numba", "numba", ["numba", "pip install 'ellipslice[latent]'"]),
        ("cvxopt", "cholmod", ["cvxopt", "pip install 'ellipslice[cholmod]'", 'solver="numba"']),
    ],
)
def test_a_package_that_is_not_there(monkeypatch, package, solver, words):
    for name in [name for name in sys.modules if name.startswith("ellipslice.latent.sparse.")]:
        if name != "ellipslice.latent.sparse.analysis" and (package == "numba" or name.endswith("cholmod")):
            monkeypatch.delitem(sys.modules, name)
            monkeypatch.delattr(ellipslice.latent.sparse, name.rpartition(".")[2])
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError) as error:
        analyse([0], [0], 1, solver)
    assert all(word in str(error.value) for word in words)


def test_without_a_folder_for_compiled_code(monkeypatch):
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    with pytest.raises(RuntimeError, match="cannot cache"):
        numba.njit(cache=True)(_plus_one)
    assert compiled(_plus_one)(1) == 2


def _plus_one(x):
    return x + 1


@pytest.mark.long
def test_another_process_has_the_same_bits_and_does_not_compile():
    code = (
        "import time\n"
        "import numpy as np\n"
        "from scipy import sparse\n"
        "from ellipslice.latent.sparse.analysis import analyse\n"
        "rows, cols = np.tril_indices(4)\n"
        "began = time.process_time()\n"
        "factor = analyse(rows, cols, 4).factorise(np.where(rows == cols, 3.0, 1.0))\n"
        "x = factor.solve(np.arange(4.0))\n"
        "factor.selected_inverse()\n"
        "print(x.tobytes().hex(), time.process_time() - began)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_DISABLE_JIT"}
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        for _ in range(2)
    ]
    (first, _), (second, seconds) = (run.stdout.split() for run in runs)
    assert first == second
    assert float(seconds) < 3.0  # importing numba and loading code; compiling takes longer

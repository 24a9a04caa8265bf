"""Time sparse Cholesky factorisations with one pattern: this library's, CHOLMOD's and, if it is installed, QDLDL's.

    python benchmarks/sparse_cholesky.py --out benchmarks/results/sparse_cholesky.json

The matrices are those of latent Gaussian models. Times are medians of CPU milliseconds per call from Python. The
solvers take turns. CHOLMOD is timed by `analyse(..., solver="cholmod")`, whose selected inverse is this library's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ellipslice.latent.sparse.analysis import analyse
from ellipslice.machine import commit, machine

ROUNDS, SECONDS_PER_ROUND = 5, 0.05
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def main() -> None:
    """Print and store a row for each matrix and solver."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    rows = [row for name, matrix in problems().items() for row in compare(name, sparse.csc_array(matrix))]
    if given.out:
        arguments = " ".join(argument for argument in sys.argv[1:] if argument not in ("--out", str(given.out)))
        environment = {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ}
        about = {"machine": machine(), "commit": commit(), "arguments": [arguments], "environment": environment}
        given.out.write_text(json.dumps(about | {"sparse_cholesky": rows}, indent=1) + "\n", encoding="utf8")


def problems() -> dict[str, Any]:
    """Return positive definite matrices by name."""
    return {
        "lattice 5 x 5": lattice(5),
        "lattice 17 x 17": lattice(17),
        "lattice 50 x 50": lattice(50),
        "lattice 100 x 100": lattice(100),
        "lattice 142 x 142": lattice(142),
        "lattice 142 x 142, 1 dense row": with_dense_rows(lattice(142), 1),
        "second-order lattice 100 x 100": lattice(100) @ lattice(100),
        "300 + 20 crossed effects": crossed_effects(1200, 300, 20),
        "2000 + 400 crossed effects": crossed_effects(6000, 2000, 400),
        "2000 blocks of 5, 4 dense rows": with_dense_rows(
            sparse.kron(sparse.eye_array(2000), np.ones((5, 5)) + np.eye(5)), 4
        ),
        "second-order random walk, 10000": path(10_000) @ path(10_000),
        "dense, 300": np.ones((300, 300)) + np.eye(300),
    }


def path(size: int) -> Any:
    """Return the structure of a random walk, made positive definite."""
    return sparse.diags_array([-np.ones(size - 1), np.full(size, 2.1), -np.ones(size - 1)], offsets=[-1, 0, 1])


def lattice(side: int) -> Any:
    """Return the structure of a square lattice with four neighbours, made positive definite."""
    eye = sparse.eye_array(side)
    return sparse.kron(path(side), eye) + sparse.kron(eye, path(side))


def with_dense_rows(matrix: Any, count: int) -> Any:
    """Return a matrix with additional rows, such as those of fixed effects."""
    size = matrix.shape[0]
    border = sparse.csc_array(np.random.default_rng(1).normal(0.0, 0.01, (size, count)))
    return sparse.block_array([[matrix, border], [border.T, sparse.eye_array(count) * size]])


def crossed_effects(rows: int, *levels: int) -> Any:
    """Return the posterior precision of an intercept and several group-level effects, with random groups."""
    rng = np.random.default_rng(rows)
    where = np.arange(rows)
    parts = [sparse.csr_array((np.ones(rows), (where, rng.integers(n, size=rows))), (rows, n)) for n in levels]
    design = sparse.hstack([*parts, np.ones((rows, 1))])
    return design.T @ design + sparse.eye_array(sum(levels) + 1)


def compare(name: str, matrix: Any) -> list[dict[str, Any]]:
    """Return a row for each solver."""
    part = sparse.tril(matrix).tocoo()
    size = matrix.shape[0]
    calls = {solver: calls_of(solver, part, size) for solver in ("numba", "cholmod")}
    if (qdldl := calls_of_qdldl(matrix)) is not None:
        calls["qdldl"] = qdldl
    times: dict[str, dict[str, list[float]]] = {solver: {key: [] for key in of} for solver, of in calls.items()}
    for _ in range(ROUNDS):
        for solver, of in calls.items():
            for key, call in of.items():
                times[solver][key].append(milliseconds(call))
    about = {"problem": name, "size": size, "entries": part.nnz}
    rows = []
    for solver, of in times.items():
        rows.append(about | {"solver": solver} | {key: round(statistics.median(found), 4) for key, found in of.items()})
        print(rows[-1], flush=True)
    return rows


def calls_of(solver: str, part: Any, size: int) -> dict[str, Callable[[], Any]]:
    """Return the calls of one of this library's solvers that are timed."""
    rows, cols, values = part.row, part.col, part.data
    analysis = analyse(rows, cols, size, solver=solver)
    factor, b = analysis.factorise(values), np.random.default_rng(2).normal(size=size)
    return {
        "analyse": lambda: analyse(rows, cols, size, solver=solver),
        "factorise": lambda: analysis.factorise(values),
        "solve": lambda: factor.solve(b),
        "unwhiten": lambda: factor.unwhiten(b),
        "half_solve": lambda: factor.half_solve(b),
        "selected_inverse": factor.selected_inverse,
    }


def calls_of_qdldl(matrix: Any) -> dict[str, Callable[[], Any]] | None:
    """Return the calls of QDLDL, which has neither half solves nor a selected inverse; None if it is not installed."""
    try:
        import qdldl
    except ImportError:
        return None
    solver = qdldl.Solver(sparse.csc_matrix(matrix))
    upper, b = (
        sparse.triu(sparse.csc_matrix(matrix), format="csc"),
        np.random.default_rng(2).normal(size=matrix.shape[0]),
    )
    return {"factorise": lambda: solver.update(upper, upper=True), "solve": lambda: solver.solve(b)}


def milliseconds(call: Callable[[], Any]) -> float:
    """Return the median CPU time of a call."""
    call()
    found, began = [], time.process_time()
    while not found or time.process_time() - began < SECONDS_PER_ROUND:
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return 1e3 * statistics.median(found)


if __name__ == "__main__":
    main()

"""Property tests of terms of latent Gaussian models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ellipslice.testing.assertions import require, require_close, require_p_value

DRAWS = 300
"""Number of draws of the statistical test."""
SINGLE_ROWS = 10
"""Largest number of rows of data that are tested one by one."""


def check_term(
    term: Any, data: Any = None, *, precision: Callable[..., Any] | None = None, unit: float = 1.0, seed: int = 0
) -> None:
    """Check a term of a latent Gaussian model. Raise an `AssertionError` that names the property if one does not hold.

    - `bind` returns a copy, and does not change the term.
    - Bases are symmetric matrices with one coefficient each, and the precision is positive semi-definite on {C x = 0}.
    - The constraints are linearly independent, and the improper directions are exactly those in which it is singular.
    - `log_determinant` is the logarithm of the product of the other eigenvalues on {C x = 0}.
    - `rows` gives some of the rows of data the same rows as all of them.
    - `effects`, `coords`, `priors` and `describe` have the names and shapes of the interface. Batches are their rows.
    - `simulate` is a deterministic function of its generator, and its draws have the covariance that follows from the
      precision and the constraints. It raises a ValueError with the name of the term if the prior is improper.

    Parameters
    ----------
    term : Term
        Term before `bind`, with at most about 1,000 latent elements, because the tests use dense matrices.
    data : DataFrame or mapping of columns, optional
        Argument of `bind`.
    precision : callable, optional
        Function of the hyperparameters that returns the precision that the term should have, shape (size, size).
    unit : float
        Argument of `bind`. Default: 1.
    seed : int
        Seed of the tests. Default: 0.

    Examples
    --------
    >>> import ellipslice as es
    >>> es.testing.check_term(es.terms.RW1("year"), {"year": [2000, 2001, 2004, 2000]})
    """
    before = repr(term)
    bound = term.bind(data, unit=unit)
    require(bound is not term and repr(term) == before, "bind changes the term instead of returning a copy")
    rng = np.random.default_rng(seed)
    for values in _settings(bound.hyperparameters):
        _check_precision(bound, values, precision)
        _check_draws(bound, values, rng)
    _check_rows(bound, data, rng)
    _check_names(bound, rng)


def _settings(hyperparameters: Mapping[str, Any]) -> list[dict[str, float]]:
    """Return three values of all hyperparameters inside their bounds."""
    found = []
    for k, place in enumerate((0.31, 0.5, 0.83)):
        values = {}
        for j, (name, each) in enumerate(hyperparameters.items()):
            p = place if (j + k) % 2 else 1 - place
            bounded = math.isfinite(each.upper)
            values[name] = each.lower + p * (each.upper - each.lower) if bounded else each.lower + p / (1 - p) + 0.1
        found.append(values)
    return found


def _inside(bound: Any) -> np.ndarray:
    """Return an orthonormal basis of {C x = 0}, shape (size, dimensions)."""
    constraints = np.asarray(bound.constraints)
    _, singular, rows = np.linalg.svd(constraints.reshape(-1, bound.size), full_matrices=True)
    independent = not len(constraints) or singular.min() > 1e-10 * singular.max()
    require(independent, "the constraints are not linearly independent")
    return rows[len(constraints) :].T


def _check_precision(bound: Any, values: dict[str, float], expected: Callable[..., Any] | None) -> None:
    """Check bases, coefficients, null space and log determinant at one setting of the hyperparameters."""
    size, coefficients = bound.size, np.asarray(bound.coefficients(**values))
    for name in ("constraints", "improper"):
        shape = np.shape(getattr(bound, name))
        require(len(shape) == 2 and shape[1] == size, f"{name} has shape {shape}; expected (rows, {size})")
    require(
        coefficients.shape == (len(bound.bases),),
        f"coefficients has shape {coefficients.shape} for {len(bound.bases)} bases; expected one per basis",
    )
    require(bool(np.isfinite(coefficients).all()), f"coefficients are not finite at {values}")
    total = np.zeros((size, size))
    for weight, base in zip(coefficients, bound.bases, strict=True):
        dense = base.toarray()
        require(dense.shape == (size, size), f"a basis has shape {dense.shape}; expected ({size}, {size})")
        require(np.array_equal(dense, dense.T), "a basis is not symmetric")
        total += weight * dense
    if expected is not None:
        require_close(total, expected(**values), f"the precision at {values} is not the expected one")
    basis = _inside(bound)
    eigenvalues = np.linalg.eigvalsh(basis.T @ total @ basis)
    largest = float(np.abs(eigenvalues).max(initial=0.0))
    require(eigenvalues.min(initial=0.0) >= -1e-9 * largest, "the precision is not positive semi-definite")
    flat = np.asarray(bound.improper)
    require_close(
        1 + bound.constraints @ flat.T, np.ones((len(bound.constraints), len(flat))), "improper: C d is not 0"
    )
    require_close(1 + total @ flat.T / max(largest, 1e-300), np.ones((size, len(flat))), "improper: Q d is not 0")
    rank = np.linalg.matrix_rank(flat) if len(flat) else 0
    require(rank == len(flat), "the improper directions are not linearly independent")
    singular = int(np.sum(eigenvalues <= 1e-11 * largest))
    require(
        singular == len(flat),
        f"the precision at {values} is singular in {singular} directions given the constraints, but improper has "
        f"{len(flat)}",
    )
    direct = float(np.log(eigenvalues[singular:]).sum())
    found = bound.log_determinant(**values)
    require(
        abs(found - direct) <= 1e-7 * max(1.0, size),
        f"log_determinant at {values} is {found:.10g}, but the eigenvalues give {direct:.10g}",
    )


def _check_draws(bound: Any, values: dict[str, float], rng: np.random.Generator) -> None:
    """Check `simulate` by a test of the draws after whitening, in two bases."""
    from scipy import stats  # slow to import, and needed only here

    if len(bound.improper):
        try:
            bound.simulate(rng, **values)
        except ValueError as error:
            require(bound.name in str(error), f"the error of simulate does not name the term: {error}")
        else:
            raise AssertionError("simulate draws from an improper prior; expected a ValueError")
        return
    seed = int(rng.integers(2**32))
    drawn = np.array([bound.simulate(np.random.default_rng((seed, i)), **values) for i in range(DRAWS)])
    again = bound.simulate(np.random.default_rng((seed, 0)), **values)
    require(np.array_equal(again, drawn[0]), "simulate is not a deterministic function of its generator")
    largest = np.abs(drawn).max(initial=0.0) or 1.0
    require_close(
        1 + drawn @ bound.constraints.T / largest / bound.size,
        np.ones((DRAWS, len(bound.constraints))),
        "C x is not 0 in draws",
    )
    basis = _inside(bound)
    eigenvalues, vectors = np.linalg.eigh(basis.T @ (bound.precision(**values) @ basis))
    white = drawn @ basis @ vectors * np.sqrt(eigenvalues)
    turned = white @ np.linalg.qr(rng.standard_normal((white.shape[1], white.shape[1])))[0]
    for each in (white, turned):
        above = stats.chi2.sf((each**2).sum(axis=0), DRAWS)
        p = 2 * min(above.min(), (1 - above).min()) * each.shape[1]
        require_p_value(min(p, 1.0), f"the draws of simulate at {values} do not have the covariance of the prior")
    central = stats.norm.sf(np.abs(white.sum(axis=0)) / math.sqrt(DRAWS)).min() * 2 * white.shape[1]
    require_p_value(min(central, 1.0), f"the draws of simulate at {values} do not have mean 0")


def _check_rows(bound: Any, data: Any, rng: np.random.Generator) -> None:
    """Check the matrix A, also for some rows of the data."""
    rows = bound.rows(data)
    require(
        rows.ndim == 2 and rows.shape[1] == bound.size, f"rows has shape {rows.shape}; expected (rows, {bound.size})"
    )
    require_close(bound.rows().toarray(), rows.toarray(), "rows() is not rows(data)")
    if data is None:
        return
    require(not np.any(bound.unseen(data)), "unseen is True for a row of the data of bind")
    order = rng.permutation(rows.shape[0])
    for some in (order[: max(1, len(order) // 2)], *order[:SINGLE_ROWS, None]):
        taken = data.iloc[some] if hasattr(data, "iloc") else {name: np.asarray(data[name])[some] for name in data}
        same = bound.rows(taken).toarray()
        require_close(same, rows.toarray()[some], "some rows of data have other rows than all data")


def _check_names(bound: Any, rng: np.random.Generator) -> None:
    """Check effects, coordinates, priors and the description."""
    x = rng.standard_normal((2, 3, bound.size))
    effects, coords = bound.effects(x), bound.coords
    require(bound.name in effects, f"effects has no result with the name of the term, {bound.name!r}")
    for name, (dims, values) in effects.items():
        lengths = tuple(len(coords[dim]) for dim in dims)
        require(
            values.shape == (2, 3, *lengths), f"effects: {name!r} has shape {values.shape}; expected (2, 3, *{lengths})"
        )
        require_close(bound.effects(x[1, 2])[name][1], values[1, 2], f"effects: a batch of {name!r} is not its rows")
    require(not set(effects) & set(coords), "a result has the name of a dimension, which xarray does not allow")
    require(
        list(bound.priors) == list(bound.hyperparameters),
        f"priors has the names {list(bound.priors)}; expected those of hyperparameters, {list(bound.hyperparameters)}",
    )
    require(bound.describe().startswith(bound.name), "describe does not begin with the name of the term")

"""Observations that see A f rather than f: the product is carried along, so that proposals need none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ellipslice.checks import as_numbers, check_real
from ellipslice.likelihoods.base import Likelihood


class LinearPredictor:
    """A log-likelihood of a linear predictor A f: generalised linear models, and others with a design matrix A.

    Every point of an ellipse is a f + b nu, so its predictor is a A f + b A nu. `sample` carries A f beside f and draws
    A nu beside nu: one product for each update, none for its proposals. It pays when A is large compared with the
    likelihood.

    Parameters
    ----------
    design : array, scipy.sparse array or LinearOperator, shape (rows, N); or mapping of names to these
        Maps the flat latent vector, its mean included, to the predictor. For a `Stack`: one matrix for the whole of it,
        or one for each latent by name, whose products are added.
    likelihood : callable
        The log-likelihood of the predictor, an array of shape (rows,): one from `ellipslice.likelihoods`, or any
        function.

    Notes
    -----
    A sparse matrix or an operator works on the host, where noise is drawn; the likelihood is compiled if it can be,
    whatever the design matrix is. The state is longer by as many values as the design matrix has rows. The carried
    predictor is never made anew from f, yet stays the product to rounding: each update shrinks what rounding there is.
    `Local` does not take it.

    Examples
    --------
    >>> import numpy as np
    >>> import ellipslice as es
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 3))
    >>> y = np.where(rng.random(500) < 1 / (1 + np.exp(-X @ [1.0, -2.0, 0.5])), 1, -1)
    >>> model = es.likelihoods.LinearPredictor(X, es.likelihoods.Logistic(y))
    >>> model
    LinearPredictor(500 x 3, Logistic(500 labels))
    >>> tree = es.sample(model, es.Diagonal(np.full(3, 10.0)), draws=500, warmup=500, seed=1)
    >>> tree.posterior.f.shape
    (4, 500, 3)
    """

    def __init__(self, design: Any, likelihood: Callable[[Any], Any]):
        if isinstance(likelihood, type) and issubclass(likelihood, Likelihood):
            name = likelihood.__name__
            raise TypeError(f"likelihood is the class {name}. Make an instance of it, with the data: {name}(y).")
        if not callable(likelihood):
            raise TypeError(
                f"likelihood must be a function of the predictor A f, but it is a {type(likelihood).__name__}."
            )
        if isinstance(design, Mapping) and not design:
            raise ValueError("design is an empty mapping. Give a matrix for each of the prior's latents, by name.")
        by_name = isinstance(design, Mapping)
        self.matrices = {name: _matrix(design[name], f"design[{name!r}]") for name in design} if by_name else None
        self.matrix = _matrix(design, "design") if self.matrices is None else None
        self.likelihood = likelihood
        rows = {name: matrix.shape[0] for name, matrix in self._parts.items()}
        if len(set(rows.values())) > 1:
            raise ValueError(f"the matrices in design must have the same number of rows, but they have {rows}.")
        self.rows = next(iter(rows.values()))
        if isinstance(likelihood, Likelihood) and likelihood.y.shape != (self.rows,):
            raise ValueError(
                f"design has {self.rows} rows, but {likelihood!r} has observations of shape {likelihood.y.shape}. "
                "Expected one row of the design matrix for each observation."
            )

    @property
    def _parts(self) -> dict[str, Any]:
        return {"f": self.matrix} if self.matrices is None else self.matrices

    @property
    def dense(self) -> bool:
        """Whether compiled code could make the products too."""
        return all(isinstance(matrix, np.ndarray) for matrix in self._parts.values())

    def columns(self, layout: Any) -> list[tuple[Any, slice]]:
        """Each matrix and what it sees of the flat vector; refused if they do not fit the latents."""
        sizes = {name: int(np.prod(shape)) for name, shape in layout}
        if self.matrices is None:
            size = sum(sizes.values())
            assert self.matrix is not None  # noqa: S101  one of the two is given
            if self.matrix.shape[1] != size:
                raise ValueError(
                    f"design has shape {self.matrix.shape}, but the prior has {size} values. Expected ({self.rows}, "
                    f"{size})."
                )
            return [(self.matrix, slice(0, size))]
        if set(self.matrices) != set(sizes):
            raise ValueError(
                f"design has matrices for {', '.join(self.matrices)}, but the prior's latents are {', '.join(sizes)}. "
                "Give one for each."
            )
        spans, start = [], 0
        for name, size in sizes.items():
            matrix = self.matrices[name]
            if matrix.shape[1] != size:
                raise ValueError(
                    f"design[{name!r}] has shape {matrix.shape}, but {name} has {size} values. Expected "
                    f"({self.rows}, {size})."
                )
            spans.append((matrix, slice(start, start + size)))
            start += size
        return spans

    def __call__(self, f: Any) -> Any:
        """The log-likelihood at one latent, an array or a mapping of names to arrays, by a product with A."""
        latents = f if isinstance(f, Mapping) else {"f": f}
        if set(latents) != set(self._parts):
            raise ValueError(f"f must be a mapping with the names {', '.join(self._parts)}.")
        return self.likelihood(sum(matrix @ np.ravel(latents[name]) for name, matrix in self._parts.items()))

    def __repr__(self) -> str:
        sizes = [f"{matrix.shape[1]}" for matrix in self._parts.values()]
        what = getattr(self.likelihood, "__qualname__", None) or repr(self.likelihood)
        return f"LinearPredictor({self.rows} x {' + '.join(sizes)}, {what})"


def times(matrix: Any, f: Any) -> Any:
    """A f for every row f of an array (..., N)."""
    if isinstance(matrix, np.ndarray):
        return f @ matrix.T
    columns = np.asarray(f).reshape(-1, matrix.shape[1]).T
    return np.asarray(matrix @ columns).T.reshape(*f.shape[:-1], matrix.shape[0])


def _matrix(A: Any, name: str) -> Any:
    from scipy.sparse import issparse
    from scipy.sparse.linalg import LinearOperator

    if isinstance(A, LinearOperator):
        return A
    advice = "Drop rows with missing values."
    sparse = issparse(A)
    values = A.tocsr() if sparse else as_numbers(A, name, advice=advice)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"{name} has shape {values.shape}; expected (rows, N), with the predictor {name} @ f.")
    if sparse:
        check_real(name, values.dtype)
        values = values.astype(np.float64)  # a copy: what the caller does to his later must not change ours
        as_numbers(values.data, f"the non-zeros of {name}", advice=advice)
    return values

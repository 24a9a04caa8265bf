"""Gaussian processes with a dense covariance, for at most 1,000 distinct inputs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csc_array, csr_array

from ellipslice.latent.hyperpriors import Hyperparameter, check_prior, support_of
from ellipslice.latent.terms.columns import listed
from ellipslice.latent.terms.dense import EntryBases
from ellipslice.latent.terms.kernel_matrix import KernelMatrix, inverse_of, lower_factor
from ellipslice.latent.terms.places import PlacedTerm
from ellipslice.latent.terms.structure import Structure

MAX_INPUTS = 1_000
"""Largest number of distinct inputs, and of new inputs of one prediction."""


@dataclass(frozen=True, eq=False)
class KernelStructure(Structure):
    """The matrices of a Gaussian process."""

    kernel: Any = None


def _no_default(unit: float) -> None:
    """Return no prior, because priors of a kernel are required."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class GP(PlacedTerm):
    """Gaussian process with a kernel with unknown hyperparameters.

    Each distinct input has a latent element. An evaluation costs O(n^3) for n distinct inputs, so use `Matern` for many
    places, and `RW2` or `AR1` for many times. 1e-8 of the variance is added to the diagonal of the covariance.

    Parameters
    ----------
    column : str, tuple of str, or array, shape (rows,) or (rows, axes)
        Columns with the coordinates of each row: numbers or dates. At most 1,000 distinct ones.
    kernel : kernel, or callable
        A kernel of tinygp or scikit-learn, or a function of hyperparameters that returns one, such as
        `lambda sd, length: sd**2 * tinygp.kernels.Matern32(length)`. The function may also return a function of two
        sets of inputs that returns their covariances. Use a named function, not a lambda, for workers in processes.
    prior : mapping of str to distribution of NumPyro
        Prior of each argument of the function.
    name : str, optional
        Name of the term. Default: the names of the columns, joined by an underscore.

    Examples
    --------
    >>> import numpyro.distributions as dist
    >>> from tinygp.kernels import Matern32
    >>> priors = {"sd": dist.HalfNormal(1.0), "length": dist.LogNormal(0.0, 1.0)}
    >>> term = GP("time", kernel=lambda sd, length: sd**2 * Matern32(length), prior=priors).bind({"time": [0, 2, 3, 2]})
    >>> term.size, list(term.hyperparameters)
    (3, ['sd', 'length'])
    """

    kernel: Any = None

    connected: ClassVar[bool] = True

    @functools.cached_property
    def hyperparameters(self) -> Mapping[str, Hyperparameter]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Arguments of the kernel, with the supports of their priors as bounds."""
        if self.prior is not None and not isinstance(self.prior, Mapping):
            raise TypeError(
                f"GP: prior must be a mapping from arguments of the kernel to distributions, but it is {self.prior!r}."
            )
        return {
            name: Hyperparameter(f"argument {name} of the kernel", *support_of(prior), _no_default)
            for name, prior in (self.prior or {}).items()
        }

    def bind(self, data: Any = None, unit: float = 1.0, location: float = 0.0) -> Any:
        if self.kernel is None:
            raise TypeError("GP requires kernel=, such as lambda sd, length: sd**2 * tinygp.kernels.Matern32(length).")
        points = self._points(self.column, data)
        levels = np.unique(points, axis=0)
        if len(levels) > MAX_INPUTS:
            raise ValueError(
                f"GP: there are {len(levels)} distinct inputs, and at most {MAX_INPUTS} are possible. Use Matern for "
                "places, RW2 or AR1 for times, or round the inputs."
            )
        levels = levels[:, 0] if levels.shape[1] == 1 else levels
        priors = {
            name: check_prior(self.prior[name], each, f"the argument {name} of the kernel")
            for name, each in self.hyperparameters.items()
        }
        kernel = KernelMatrix(self.kernel, priors, levels)
        kernel.probe()
        return self._with_structure(levels, KernelStructure(EntryBases(len(levels)), kernel=kernel), data, unit)

    def structure(self, levels: np.ndarray) -> Structure:
        raise NotImplementedError("the structure of a Gaussian process depends on its kernel")

    @property
    def _covariance(self) -> KernelMatrix:
        structure: Any = self.state.structure
        return structure.kernel

    def coefficients(self, **hyperparameters: float) -> np.ndarray:
        bases: Any = self.bases
        return bases.entries_of(inverse_of(self._covariance.factor(hyperparameters)))

    def log_determinant(self, **hyperparameters: float) -> float:
        return -2.0 * float(np.log(self._covariance.factor(hyperparameters).diagonal()).sum())

    def precision(self, **hyperparameters: float) -> Any:
        lower = np.tril(inverse_of(self._covariance.factor(hyperparameters)))
        return csc_array(lower + np.tril(lower, -1).T)

    def _simulate(self, rng: np.random.Generator, **hyperparameters: float) -> np.ndarray:
        return self._covariance.factor(hyperparameters) @ rng.standard_normal(self.size)

    def conditional_effects(
        self, data: Any, effects: np.ndarray, hyperparameters: Mapping[str, np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        new, rows = np.unique(self._points(self._new_column, data), axis=0, return_inverse=True)
        if len(new) > MAX_INPUTS:
            raise ValueError(
                f"{self.name}: there are {len(new)} new inputs, and at most {MAX_INPUTS} are possible. Predict fewer "
                "rows at a time."
            )
        known, size = self._covariance, self.size
        inputs = np.concatenate([known.inputs, new.reshape(-1, *known.inputs.shape[1:])])
        found = np.empty((len(effects), len(new)))
        for i, (x, noise) in enumerate(zip(effects, rng.standard_normal(found.shape), strict=True)):
            values = {name: float(each[i]) for name, each in hyperparameters.items()}
            lower = lower_factor(known.at(values, inputs))
            white = solve_triangular(lower[:size, :size], x, lower=True)
            found[i] = lower[size:, :size] @ white + lower[size:, size:] @ noise
        return found[:, np.ravel(rows)]

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _positions(self, column: Any, data: Any) -> np.ndarray:
        """Return the position of each row's input in the levels, and -1 for a new input."""
        levels = self.state.levels.reshape(self.size, -1)
        where = {tuple(level): i for i, level in enumerate(levels.tolist())}
        return np.array([where.get(tuple(point), -1) for point in self._points(column, data).tolist()])

    def _design(self, column: Any, data: Any) -> csr_array:
        codes = self._positions(column, data)
        if (codes < 0).any():
            raise ValueError(
                f"{self.name} has no effect at the inputs of rows {listed(np.flatnonzero(codes < 0))}. Use predict, "
                "which draws effects at new inputs."
            )
        return csr_array((np.ones(len(codes)), codes, np.arange(len(codes) + 1)), (len(codes), self.size))

    def unseen(self, data: Any) -> np.ndarray:
        return self._positions(self._new_column, data) < 0

    @property
    def coords(self) -> dict[str, np.ndarray]:
        levels = self.state.levels
        if levels.ndim == 1:
            return {self.dim: levels}
        return {self.dim: np.array([", ".join(f"{each:.10g}" for each in level) for level in levels])}

    @property
    def about(self) -> str:
        return f"Gaussian process at {self.size} distinct inputs of {' and '.join(self.axes)}"

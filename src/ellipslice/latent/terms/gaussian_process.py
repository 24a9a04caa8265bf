"""Gaussian processes with any kernel: dense, or linear in the number of times if the kernel is quasi-separable."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from ellipslice.latent.hyperpriors import LENGTH_SCALE, Hyperparameter, check_prior, given_priors, support_of
from ellipslice.latent.terms.columns import listed
from ellipslice.latent.terms.kernel_matrix import KernelMatrix
from ellipslice.latent.terms.kernel_states import KernelStates
from ellipslice.latent.terms.named_kernels import HYPERPARAMETERS, length_scale_prior, named_kernel
from ellipslice.latent.terms.places import PlacedTerm
from ellipslice.latent.terms.structure import Structure
from ellipslice.latent.terms.term_kernel import TermKernel, function_of
from ellipslice.priors.parts.kernels import is_markov


@dataclass(frozen=True, eq=False)
class KernelStructure(Structure):
    """The matrices of a Gaussian process."""

    kernel: Any = None


def _no_default(unit: float) -> None:
    """Return no prior, because priors of a kernel are required."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class GP(PlacedTerm):
    """Gaussian process with a kernel with unknown hyperparameters.

    A kernel that is given by its name depends on the Euclidean distance, has one length scale for all columns, and has
    the hyperparameters `sd` and `length_scale`. The correlations at distance r length scales are exp(-r)
    ("matern12"), (1 + sqrt(3) r) exp(-sqrt(3) r) ("matern32"), (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r)
    ("matern52") and exp(-r^2 / 2) ("squared_exponential").

    For times use one of the first three, or a kernel of `tinygp.kernels.quasisep`: Exp, Matern32, Matern52, SHO, and
    sums and products of these. Each update then costs O(n) for n distinct times, at any distances. The latents are the
    states of the kernel, and results contain the effects. The covariance of times i and j, in order,
    is multiplied by (1 - 1e-10)^((j - i) / 2).

    With any other kernel, or several columns, each distinct input has a latent element, and an evaluation costs O(n^3)
    for n of them, so use `Matern` for many places. 1e-8 of the variance is added to the diagonal of the covariance.

    Parameters
    ----------
    column : str, tuple of str, or array, shape (rows,) or (rows, axes)
        Columns with the coordinates of each row: numbers, or dates, which become days. At most 1,000 distinct ones if
        the kernel is not quasi-separable. Several columns must have the same unit if the kernel is given by its name.
    kernel : str, kernel, or callable
        "matern12", "matern32", "matern52" or "squared_exponential"; a kernel of tinygp or scikit-learn; or a
        function of hyperparameters that returns one, such as `lambda sd, length: quasisep.Matern32(length, sigma=sd)`.
        The function may also return a function of two sets of inputs that returns their covariances. Use a named
        function, not a lambda, for workers in processes.
    prior : mapping of str to distribution of NumPyro
        Prior of each argument of the function, which is required. Of a kernel that is given by its name: priors of `sd`
        and `length_scale` that replace the default ones, or one distribution, the prior of `sd`. Default: P(sd > 1
        unit) = 0.01, and for two columns P(length_scale < a twentieth of the longer side) = 0.05, as for the range of
        `Matern`. For other numbers of columns the 1 % and 99 % quantiles of `length_scale` are the median distance of
        an input to its nearest neighbour, at most a tenth of the largest distance, and the largest distance.
    name : str, optional
        Name of the term. Default: the names of the columns, joined by an underscore.

    Examples
    --------
    >>> places = {"east": [0.0, 2.0, 0.5], "north": [0.0, 1.0, 0.25]}
    >>> list(GP(("east", "north"), kernel="matern32").bind(places).priors)
    ['sd', 'length_scale']
    >>> import numpyro.distributions as dist
    >>> from tinygp.kernels import ExpSquared, quasisep
    >>> priors = {"sd": dist.HalfNormal(1.0), "length": dist.LogNormal(0.0, 1.0)}
    >>> in_time = GP("time", kernel=lambda sd, length: quasisep.Matern32(length, sigma=sd), prior=priors)
    >>> in_time.bind({"time": [0, 2, 3, 2]}).describe().split(".")[0]
    'time: Gaussian process at 3 distinct inputs of time, Markov in time'
    >>> dense = GP("time", kernel=lambda sd, length: sd**2 * ExpSquared(length), prior=priors)
    >>> dense.bind({"time": [0, 2, 3, 2]}).size
    3
    """

    kernel: Any = None

    connected: ClassVar[bool] = True

    @property
    def hyperparameters(self) -> Mapping[str, Hyperparameter]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Hyperparameters of a kernel that is given by its name, or arguments of a function."""
        return HYPERPARAMETERS if isinstance(self.kernel, str) else self._arguments

    @functools.cached_property
    def _arguments(self) -> Mapping[str, Hyperparameter]:
        """Arguments of the kernel, with the supports of their priors as bounds."""
        if self.prior is not None and not isinstance(self.prior, Mapping):
            raise TypeError(
                f"GP: prior must be a mapping from arguments of the kernel to distributions, but it is {self.prior!r}."
            )
        return {
            name: Hyperparameter(f"argument {name} of the kernel", *support_of(prior), _no_default)
            for name, prior in (self.prior or {}).items()
        }

    @functools.cached_property
    def priors(self) -> dict[str, Any]:
        """Priors of the hyperparameters by local name, distributions of NumPyro."""
        return self._priors_at(self.state.levels, self.state.unit)

    def _priors_at(self, levels: np.ndarray, unit: float) -> dict[str, Any]:
        given, found = given_priors(self.prior, self.hyperparameters, "GP"), {}
        for name, each in self.hyperparameters.items():
            prior = given.get(name)
            if prior is None:
                prior = length_scale_prior(levels, self._name()) if each is LENGTH_SCALE else each.make_prior(unit)
            named = f"{self._name()}_{name}" if isinstance(self.kernel, str) else f"the {each.meaning}"
            found[name] = check_prior(prior, each, named)
        return found

    def bind(self, data: Any = None, unit: float = 1.0, location: float = 0.0) -> Any:
        if self.kernel is None:
            raise TypeError(
                "GP requires kernel=, such as 'matern32', or lambda sd, length: quasisep.Matern32(length, sigma=sd)."
            )
        levels = np.unique(self._points(self.column, data), axis=0)
        levels = levels[:, 0] if levels.shape[1] == 1 else levels
        given = named_kernel(self.kernel, one_axis=levels.ndim == 1) if isinstance(self.kernel, str) else self.kernel
        priors = self._priors_at(levels, unit)
        function, values = function_of(given, priors)
        kind = KernelStates if is_markov(function(values)) else KernelMatrix
        if kind.most_inputs is not None and len(levels) > kind.most_inputs:
            raise ValueError(
                f"GP: there are {len(levels)} distinct inputs, and at most {kind.most_inputs} are possible with this "
                "kernel. Use kernel='matern52' or a kernel of tinygp.kernels.quasisep for times, Matern for places, or "
                "round the inputs."
            )
        kernel = kind(function, priors, levels)
        kernel.probe(values)
        structure = KernelStructure(kernel.bases, effect=kernel.effect, kernel=kernel)
        return self._with_structure(levels, structure, data, unit)

    def structure(self, levels: np.ndarray) -> Structure:
        raise NotImplementedError("the structure of a Gaussian process depends on its kernel")

    @property
    def _kernel(self) -> TermKernel:
        structure: Any = self.state.structure
        return structure.kernel

    def coefficients(self, **hyperparameters: float) -> np.ndarray:
        return self._kernel.coefficients(hyperparameters)

    def log_determinant(self, **hyperparameters: float) -> float:
        return self._kernel.log_determinant(hyperparameters)

    def precision(self, **hyperparameters: float) -> Any:
        return self._kernel.bases.matrix(self.coefficients(**hyperparameters))

    def _simulate(self, rng: np.random.Generator, **hyperparameters: float) -> np.ndarray:
        return self._kernel.draw(hyperparameters, rng)

    def conditional_effects(
        self, data: Any, effects: np.ndarray, hyperparameters: Mapping[str, np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        kernel = self._kernel
        new, rows = np.unique(self._points(self._new_column, data), axis=0, return_inverse=True)
        if kernel.most_inputs is not None and len(new) > kernel.most_inputs:
            raise ValueError(
                f"{self.name}: there are {len(new)} new inputs, and at most {kernel.most_inputs} are possible. Predict "
                "fewer rows at a time."
            )
        draws = [{name: float(each[i]) for name, each in hyperparameters.items()} for i in range(len(effects))]
        found = kernel.conditional(draws, new.reshape(-1, *kernel.inputs.shape[1:]), effects, rng)
        return found[:, np.ravel(rows)]

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _positions(self, column: Any, data: Any) -> np.ndarray:
        """Return the position of each row's input in the levels, and -1 for a new input."""
        levels = self.state.levels.reshape(len(self.state.levels), -1)
        where = {tuple(level): i for i, level in enumerate(levels.tolist())}
        return np.array([where.get(tuple(point), -1) for point in self._points(column, data).tolist()])

    def _design(self, column: Any, data: Any) -> csr_array:
        codes = self._positions(column, data)
        if (codes < 0).any():
            raise ValueError(
                f"{self.name} has no effect at the inputs of rows {listed(np.flatnonzero(codes < 0))}. Use predict, "
                "which draws effects at new inputs."
            )
        return csr_array((np.ones(len(codes)), codes, np.arange(len(codes) + 1)), (len(codes), len(self.state.levels)))

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
        axes = " and ".join(self.axes)
        kernel = f" with the kernel {self.kernel}" if isinstance(self.kernel, str) else ""
        return f"Gaussian process{kernel} at {len(self.state.levels)} distinct inputs of {axes}, {self._kernel.about}"

"""Kernels with hyperparameters at the inputs of a term: what `KernelMatrix` and `KernelStates` share."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import numpy as np

from ellipslice.jax_settings import on_cpu
from ellipslice.latent.terms.entry_bases import EntryBases
from ellipslice.parameters.named_arguments import ParameterFunction, kernel_function
from ellipslice.parameters.parameters import Parameters

UNTRACEABLE = (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError)


class TermKernel(abc.ABC):
    """The precision of the latents of a Gaussian process, as a function of the hyperparameters of its kernel.

    Parameters
    ----------
    function : ParameterFunction
        From hyperparameters to the kernel.
    names : sequence of str
        Names of the hyperparameters.
    inputs : array, shape (n,) or (n, axes)
        Sorted distinct inputs.

    Attributes
    ----------
    names : list of str
    traceable : bool
        Whether JAX can trace the kernel. Set by `probe`.
    """

    bases: EntryBases
    """Bases of the precision. Set by `probe`."""
    effect: Any = None
    """Matrix from latents to effects, shape (n, latents); None for the identity."""
    about: ClassVar[str]
    """The structure in words."""
    most_inputs: ClassVar[int | None] = None
    """Largest number of inputs, and of new inputs of one prediction. Default: None, any number."""

    def __init__(self, function: ParameterFunction, names: Any, inputs: np.ndarray):
        self._function, self.names, self.inputs = function, list(names), inputs
        self.traceable = True
        self._compile()

    def _compile(self) -> None:
        self._last: tuple[dict[str, float], Any] | None = None
        self._compiled = jax.jit(self._traced)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_compiled", "_last")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._compile()

    @abc.abstractmethod
    def probe(self, values: Mapping[str, float]) -> None:
        """Evaluate the kernel. Raise ValueError if the covariance is not positive definite."""

    @abc.abstractmethod
    def coefficients(self, values: Mapping[str, float]) -> np.ndarray:
        """Return the coefficients of the bases; NaN if the covariance is not positive definite."""

    @abc.abstractmethod
    def log_determinant(self, values: Mapping[str, float]) -> float:
        """Return the log determinant of the precision."""

    @abc.abstractmethod
    def draw(self, values: Mapping[str, float], rng: np.random.Generator) -> np.ndarray:
        """Draw latents, shape (latents,)."""

    @abc.abstractmethod
    def conditional(
        self, draws: list[dict[str, float]], new: np.ndarray, effects: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Draw effects at sorted distinct new inputs, given those at the inputs, shape (draws, new)."""

    @abc.abstractmethod
    def _of_kernel(self, kernel: Any, inputs: Any) -> np.ndarray:
        """Return what is computed from a kernel that has been made."""

    @abc.abstractmethod
    def _traced(self, values: Any, inputs: Any) -> Any:
        """Return the same from a vector of hyperparameters, by JAX."""

    def _kernel(self, values: Any) -> Any:
        return self._function(dict(zip(self.names, values, strict=True)))

    def _evaluate(self, values: Mapping[str, float], inputs: np.ndarray) -> np.ndarray:
        if self.traceable:
            with on_cpu():
                return np.asarray(self._compiled(np.array([values[name] for name in self.names]), inputs))
        return self._of_kernel(self._function(values), inputs)

    def _first(self, values: Mapping[str, float]) -> np.ndarray:
        """Return the first evaluation at the inputs, which shows whether JAX can trace the kernel."""
        try:
            return self._evaluate(values, self.inputs)
        except UNTRACEABLE:
            self.traceable = False
            return self._evaluate(values, self.inputs)

    def _kept(self, values: Mapping[str, float], compute: Any) -> Any:
        """Return compute(values). The last result is kept."""
        last = self._last
        if last is not None and last[0] == values:
            return last[1]
        found = compute(values)
        self._last = dict(values), found
        return found


def function_of(kernel: Any, priors: Mapping[str, Any]) -> tuple[ParameterFunction, dict[str, float]]:
    """Return a kernel as a function of hyperparameters, and the medians of their priors.

    Raise if an argument has no prior, or a prior belongs to no argument.
    """
    function = kernel_function("GP: kernel", kernel, list(priors))
    if function.takes_all and function.by_name:
        raise TypeError(
            f"GP: the kernel has the argument {function.all_in!r} without a prior. Those with a prior are: "
            f"{', '.join(priors)}. Give each argument a prior: prior={{...}}."
        )
    parameters = Parameters(priors)
    with on_cpu():
        middle = parameters.constrained(parameters.gaussian()[0]) if priors else {}
    values = {name: float(value) for name, value in middle.items()}
    unused = set(priors) - function.used(values)
    if unused:
        raise ValueError(f"GP: prior has the name {min(unused)!r}, but the kernel does not use it. Remove it.")
    return function, values


def not_positive_definite(values: Mapping[str, float]) -> ValueError:
    """Return the error for a kernel without a positive definite covariance at the medians of the priors."""
    shown = ", ".join(f"{name} = {value:.4g}" for name, value in values.items()) or "its arguments"
    return ValueError(
        f"GP: the kernel has no positive definite covariance at the inputs for {shown}, the medians of the priors. "
        "Check the kernel, and whether a hyperparameter can be negative that must be positive."
    )

"""From hyperparameters to the means, and the factors of the covariances, of latent functions at inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.jax_settings import on_cpu
from ellipslice.moves.array_ops import switch
from ellipslice.parameters.factor import DenseFactor, Factor, LowRankFactor, factorise, factorise_low_rank
from ellipslice.parameters.named_arguments import ParameterFunction
from ellipslice.parameters.parameters import Parameters
from ellipslice.parameters.pivots import Pivots
from ellipslice.priors.parts.kernels import DISTANCE_HINT, comes_from, covariance_matrix, functions


class KernelFactors:
    """Factors of the covariances, and means, of latent functions as functions of hyperparameters and inputs; hashable.

    Parameters
    ----------
    parameters : Parameters
    kernels : mapping of str to ParameterFunction
        The kernel of each latent function, as a function of hyperparameters.
    means : mapping of str to ParameterFunction or float
        The mean of each latent function, as a function of hyperparameters and the inputs X.

    Attributes
    ----------
    latents : list of str
        Names of the latent functions.
    traceable : bool
        Whether JAX can trace the kernels. Set by `probe`.
    """

    def __init__(
        self,
        parameters: Parameters,
        kernels: Mapping[str, ParameterFunction],
        means: Mapping[str, ParameterFunction | float],
    ):
        self._parameters, self._kernels, self._means = parameters, dict(kernels), dict(means)
        self.latents = list(self._kernels)
        self._compiled = jax.jit(self._traced, static_argnums=0)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the compiled function, which cannot be pickled."""
        return {name: value for name, value in self.__dict__.items() if name != "_compiled"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._compiled = jax.jit(self._traced, static_argnums=0)

    def probe(self, inputs: np.ndarray) -> None:
        """Call kernels and means at the medians of the priors. Raise if the covariance is not positive definite.

        Sets `traceable`.
        """
        with on_cpu():
            middle, _ = self._parameters.gaussian()
            values = self._parameters.constrained(middle)
            self.traceable = not any(comes_from(self._kernels[name](values), "sklearn") for name in self.latents)
            factor, _ = self.at(middle, inputs)
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(factor)):
            error = ValueError(
                f"the kernel has no positive definite covariance at the inputs for {_as_text(values)}, the medians of "
                "the priors. Check the kernel, and whether a hyperparameter can be negative that must be positive."
            )
            if self.traceable and inputs.ndim == 2 and inputs.shape[1] > 1:
                error.add_note(DISTANCE_HINT)
            raise error

    def fingerprint(self, inputs: np.ndarray) -> list[np.ndarray]:
        """Return covariances and means at some inputs for two values of the hyperparameters, to recognise a model.

        They are rounded to six digits, which are equal on every machine.
        """
        centre, std = self._parameters.gaussian()
        some = inputs[np.linspace(0, len(inputs) - 1, min(20, len(inputs))).astype(int)]
        found = []
        for u in (centre, centre + std):
            covariances, means = self.moments(u, some)
            for one in (part for latent in zip(covariances, means, strict=True) for part in latent):
                largest = np.float64(f"{np.abs(one).max():.6g}")
                found += [largest, np.round(one / (largest or 1.0), 6) + 0.0]  # + 0.0 turns -0.0 into 0.0
        return found

    def at(self, u: Any, inputs: Any, pivots: Pivots | None = None) -> tuple[Factor, Any]:
        """Return the full factor and the means, shape (latents, n). With pivots, the factor has no inverse."""
        return self._run(KernelFactors._full, u, inputs, pivots)

    def apply(self, u: Any, inputs: Any, pivots: Pivots | None, then: Callable[[Factor, Any], Any]) -> Any:
        """Return then(factor, means), with the smallest low-rank factor that is sufficient.

        Without pivots, or if no set of them is sufficient, the factor is the full one. In compiled code each possible
        factor is a branch, because shapes must be known at compile time.
        """

        def full() -> Any:
            return then(*self.at(u, inputs, pivots))

        def low_rank(pivot_set: Any, otherwise: Callable[[], Any]) -> Any:
            factor, mean, sufficient = self._run(KernelFactors._low_rank, u, inputs, pivot_set)
            return switch(sufficient * 1.0, [otherwise, lambda: then(factor, mean)])

        attempt = full
        for pivot_set in reversed(pivots.pivot_sets if pivots else ()):
            attempt = partial(low_rank, pivot_set, attempt)
        return attempt()

    def sufficient_pivots(self, u: np.ndarray, inputs: np.ndarray, pivots: Pivots) -> Any:
        """Return the smallest sufficient set of pivots, shape (latents, r); None if no set is sufficient."""
        attempts = ((one, self._run(KernelFactors._low_rank, u, inputs, one)) for one in pivots.pivot_sets)
        return next((pivot_set for pivot_set, (_, _, sufficient) in attempts if sufficient), None)

    def moments(self, u: np.ndarray, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the covariances, shape (latents, n, n), and the means, shape (latents, n), on the host."""
        return self._run(KernelFactors._moments, u, inputs, None)

    def covariances(self, u: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """Return the covariances, shape (latents, n, n), to choose pivots. Each call compiles the kernels again."""
        # `moments` would compile them only once, but it rounds differently. The order of nearly equal pivots would
        # change, and so would the draws for a given seed.
        values = self._parameters.constrained(u)
        return np.stack([covariance_matrix(self._kernels[name](values), inputs) for name in self.latents])

    def _run(self, method: Callable[..., Any], u: Any, inputs: Any, pivots: Any) -> Any:
        """Call a method below: in a trace, compiled for the host, or in NumPy if JAX cannot trace the kernels."""
        if not isinstance(u, np.ndarray):
            return self._traced(method, u, inputs, pivots)
        if not self.traceable:
            return method(self, self._parameters.constrained(u), inputs, pivots, np)
        with on_cpu():
            return jax.tree.map(np.asarray, self._compiled(method, u, inputs, pivots))

    def _traced(self, method: Callable[..., Any], u: Any, inputs: Any, pivots: Any) -> Any:
        return method(self, self._parameters.constrain(u), inputs, pivots, jnp)

    def _full(self, values: Mapping[str, Any], inputs: Any, pivots: Pivots | None, xp: Any) -> tuple[Factor, Any]:
        parts = []
        for i, name in enumerate(self.latents):
            ordered = inputs if pivots is None else inputs[pivots.order[i]]
            kernel = self._kernels[name](values)
            parts.append(covariance_matrix(kernel, ordered) if xp is np else functions(kernel, xp)[0](ordered, ordered))
        lower, means = factorise(xp.stack(parts)), self._all_means(values, inputs, xp)
        if pivots is None:
            return DenseFactor(lower), means
        return LowRankFactor(xp.take_along_axis(lower, pivots.place[:, :, None], axis=1)), means

    def _low_rank(self, values: Mapping[str, Any], inputs: Any, pivot_set: Any, xp: Any) -> tuple[Factor, Any, Any]:
        across, variance = [], []
        for i, name in enumerate(self.latents):
            between, alone = functions(self._kernels[name](values), xp)
            across.append(between(inputs, inputs[pivot_set[i]]))
            variance.append(alone(inputs))
        factor, sufficient = factorise_low_rank(xp.stack(across), xp.stack(variance), pivot_set)
        return factor, self._all_means(values, inputs, xp), sufficient

    def _moments(self, values: Mapping[str, Any], inputs: Any, _: None, xp: Any) -> tuple[Any, Any]:
        parts = []
        for name in self.latents:
            between, alone = functions(self._kernels[name](values), xp)
            same = xp.eye(len(inputs), dtype=bool)
            parts.append(xp.where(same, alone(inputs), between(inputs, inputs)))
        return xp.stack(parts), self._all_means(values, inputs, xp)

    def _all_means(self, values: Mapping[str, Any], inputs: Any, xp: Any) -> Any:
        return xp.stack([xp.asarray(self._mean(name, values, inputs)) for name in self.latents])

    def _mean(self, name: str, values: Mapping[str, Any], inputs: Any) -> Any:
        mean = self._means[name]
        number = mean(values, X=inputs) if isinstance(mean, ParameterFunction) else mean
        return number + np.zeros(len(inputs))


def _as_text(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {np.array2string(np.asarray(value), precision=4)}" for name, value in values.items())

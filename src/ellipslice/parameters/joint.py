"""Latent functions and unknown parameters together: the prior p(u) N(f; m(u), Sigma(u)), and points of it.

A point is x = [u, z, f]: the parameters without constraints, the white noise, and f = m(u) + L(u) z, which the
likelihood sees. z and f say the same; both are kept so that no update has to find one from the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.gp.structure import DISTANCE
from ellipslice.jax_settings import on_cpu
from ellipslice.moves.array_ops import switch
from ellipslice.parameters.factor import factorise, factorise_narrow, multiply
from ellipslice.parameters.named_arguments import Called
from ellipslice.parameters.parameters import Parameters
from ellipslice.parameters.pivots import Pivots
from ellipslice.priors.base import Layout, Prior
from ellipslice.priors.parts.kernels import comes_from, covariance_matrix, functions


class Point(NamedTuple):
    """One point of the joint prior."""

    u: Any
    z: Any
    """(latents, n)."""
    f: Any
    """(latents, n)."""

    @property
    def flat(self) -> Any:
        """All of it in one vector."""
        xp = np if isinstance(self.u, np.ndarray) else jnp
        return xp.concatenate([self.u, self.z.ravel(), self.f.ravel()])


class Joint:
    """The joint prior of parameters and latent functions at inputs that are handed over later; hashable.

    Parameters
    ----------
    parameters : Parameters
    kernels : mapping of str to Called
        For each latent function, from parameters to its kernel.
    means : mapping of str to Called or float
        From parameters to its mean at the inputs X.
    """

    def __init__(self, parameters: Parameters, kernels: Mapping[str, Called], means: Mapping[str, Any]):
        self.parameters, self.kernels, self.means = parameters, dict(kernels), dict(means)
        self.latents = list(self.kernels)
        self._compiled = jax.jit(self._traced, static_argnums=0)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_compiled"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._compiled = jax.jit(self._traced, static_argnums=0)

    def look(self, inputs: np.ndarray) -> None:
        """Try the kernels and means at the middle of the prior."""
        with on_cpu():
            middle, _ = self.parameters.gaussian()
            values = self.parameters.constrained(middle)
            self.traceable = not any(comes_from(self.kernels[name](values), "sklearn") for name in self.latents)
            lower, _ = self.at(middle, inputs)
        if not np.isfinite(lower).all():
            error = ValueError(
                f"the kernel has no positive definite covariance at the inputs for {_shown(values)}, the middle of the "
                "parameters' priors. Check the kernel; a parameter may be negative that must not be."
            )
            if self.traceable and inputs.ndim == 2 and inputs.shape[1] > 1:
                error.add_note(DISTANCE)
            raise error

    def looks(self, inputs: np.ndarray) -> list[np.ndarray]:
        """Covariances and means at some inputs for two values of the parameters, to six digits: the same anywhere."""
        centre, deviation = self.parameters.gaussian()
        some = inputs[np.linspace(0, len(inputs) - 1, min(20, len(inputs))).astype(int)]
        seen = []
        for u in (centre, centre + deviation):
            covariances, means = self._run(Joint._moments, u, some, None)
            for one in (part for latent in zip(covariances, means, strict=True) for part in latent):
                largest = np.float64(f"{np.abs(one).max():.6g}")
                seen += [largest, np.round(one / (largest or 1.0), 6) + 0.0]  # and no -0
        return seen

    def at(self, u: Any, inputs: Any, pivots: Pivots | None = None) -> tuple[Any, Any]:
        """The factors of the covariances, (latents, n, n), and the means, (latents, n).

        A factor is triangular; if there are pivots, with the rows in their order.
        """
        return self._run(Joint._whole, u, inputs, pivots)

    def with_factors(self, u: Any, inputs: Any, pivots: Pivots | None, then: Callable[[Any, Any], Any]) -> Any:
        """then(factors, means), with the first columns of the factors, (latents, n, r), where these are enough."""

        def whole() -> Any:
            return then(*self.at(u, inputs, pivots))

        def narrow(first: Any, otherwise: Callable[[], Any]) -> Any:
            lower, mean, enough = self._run(Joint._narrow, u, inputs, first)
            return switch(enough * 1.0, [otherwise, lambda: then(lower, mean)])

        for first in reversed(pivots.firsts if pivots else ()):
            whole = partial(narrow, first, whole)
        return whole()

    def enough(self, u: np.ndarray, inputs: np.ndarray, pivots: Pivots) -> Any:
        """The fewest pivots whose columns are enough, (latents, r); None if none are."""
        return next((first for first in pivots.firsts if self._run(Joint._narrow, u, inputs, first)[2]), None)

    def covariances(self, u: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """On the host, (latents, n, n)."""
        values = self.parameters.constrained(u)
        return np.stack([covariance_matrix(self.kernels[name](values), inputs) for name in self.latents])

    def _run(self, factors: Callable[..., Any], u: Any, inputs: Any, pivots: Any) -> Any:
        """Traced, compiled for the host, or by NumPy for kernels that JAX cannot trace."""
        if not isinstance(u, np.ndarray):
            return self._traced(factors, u, inputs, pivots)
        if not self.traceable:
            return factors(self, self.parameters.constrained(u), inputs, pivots, np)
        with on_cpu():
            return jax.tree.map(np.asarray, self._compiled(factors, u, inputs, pivots))

    def _traced(self, factors: Callable[..., Any], u: Any, inputs: Any, pivots: Any) -> Any:
        return factors(self, self.parameters.constrain(u), inputs, pivots, jnp)

    def _whole(self, values: Mapping[str, Any], inputs: Any, pivots: Pivots | None, xp: Any) -> tuple[Any, Any]:
        parts = []
        for i, name in enumerate(self.latents):
            ordered = inputs if pivots is None else inputs[pivots.order[i]]
            kernel = self.kernels[name](values)
            parts.append(covariance_matrix(kernel, ordered) if xp is np else functions(kernel, xp)[0](ordered, ordered))
        lower = factorise(xp.stack(parts))
        if pivots is not None:
            lower = xp.take_along_axis(lower, pivots.place[:, :, None], axis=1)
        return lower, self._means(values, inputs, xp)

    def _narrow(self, values: Mapping[str, Any], inputs: Any, first: Any, xp: Any) -> tuple[Any, Any, Any]:
        across, variance = [], []
        for i, name in enumerate(self.latents):
            between, alone = functions(self.kernels[name](values), xp)
            across.append(between(inputs, inputs[first[i]]))
            variance.append(alone(inputs))
        lower, enough = factorise_narrow(xp.stack(across), xp.stack(variance), first)
        return lower, self._means(values, inputs, xp), enough

    def _moments(self, values: Mapping[str, Any], inputs: Any, _: None, xp: Any) -> tuple[Any, Any]:
        """The covariances, (latents, n, n), and the means."""
        parts = []
        for name in self.latents:
            between, alone = functions(self.kernels[name](values), xp)
            same = xp.eye(len(inputs), dtype=bool)
            parts.append(xp.where(same, alone(inputs), between(inputs, inputs)))
        return xp.stack(parts), self._means(values, inputs, xp)

    def _means(self, values: Mapping[str, Any], inputs: Any, xp: Any) -> Any:
        return xp.stack([xp.asarray(self._mean(name, values, inputs)) for name in self.latents])

    def _mean(self, name: str, values: Mapping[str, Any], inputs: Any) -> Any:
        mean = self.means[name]
        number = mean(values, X=inputs) if isinstance(mean, Called) else mean
        return number + np.zeros(len(inputs))

    def point(self, u: np.ndarray, z: np.ndarray, inputs: np.ndarray, pivots: Pivots | None = None) -> Point:
        """The point with these parameters and this white noise, on the host."""
        return self.with_factors(u, inputs, pivots, lambda lower, mean: Point(u, z, mean + multiply(lower, z)))

    def split(self, x: Any, n: int) -> Point:
        """The parts of a flat point with n inputs."""
        d, k = self.parameters.size, len(self.latents)
        return Point(x[:d], x[d : d + k * n].reshape(k, n), x[d + k * n :].reshape(k, n))

    def __repr__(self) -> str:
        return f"Joint({', '.join(self.parameters.priors)}; {', '.join(self.latents)})"


class JointPrior(Prior):
    """The joint prior at given inputs, as `sample` takes priors. It is no Gaussian: only moves of its own know it."""

    instead = "it is the prior of parameters and latent functions together. Leave move out."

    def __init__(self, joint: Joint, inputs: np.ndarray):
        self.joint, self.inputs = joint, inputs
        size = len(joint.latents) * len(inputs)
        self.mean, self.shape = None, (joint.parameters.size + 2 * size,)

    @property
    def layout(self) -> Layout:
        return (("f", self.shape),)

    @property
    def noise_size(self) -> int:
        raise TypeError("it is not a linear map of normals")

    def color(self, z: Any) -> Any:
        raise TypeError("it is not a linear map of normals")

    @property
    def linear(self) -> bool:
        return False

    @property
    def traceable(self) -> bool:
        return False

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Points, shape (count, size)."""
        u = self.joint.parameters.draw(rng, count)
        z = rng.standard_normal((count, len(self.joint.latents), len(self.inputs)))
        return np.stack([self.joint.point(u[i], z[i], self.inputs).flat for i in range(count)])

    def stored(self) -> list[Any]:
        """What a store keeps of it, to notice another one."""
        return [self.inputs, *self.joint.parameters.stored(), *self._looks]

    @cached_property
    def _looks(self) -> list[np.ndarray]:
        return self.joint.looks(self.inputs)

    def __repr__(self) -> str:
        names = ", ".join(self.joint.parameters.priors)
        return f"JointPrior({names}; {', '.join(self.joint.latents)} at {len(self.inputs)} inputs)"


jax.tree_util.register_static(JointPrior)


def _shown(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {np.array2string(np.asarray(value), precision=4)}" for name, value in values.items())

"""The log-likelihood of a point of the joint prior."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.approximations.fit import pointwise
from ellipslice.approximations.laplace import derivatives
from ellipslice.likelihoods import Likelihood
from ellipslice.likelihoods.arguments import without_label_warning
from ellipslice.parameters.joint import JointModel, Point
from ellipslice.parameters.named_arguments import ParameterFunction, call_with_latents, check_latents
from ellipslice.programs.site_program import CPU
from ellipslice.programs.site_sums import elementwise
from ellipslice.programs.traced import over_axes
from ellipslice.undocumented.matrices import one_matrix_at_a_time


class PointLikelihood:
    """The log-likelihood of data y at x = [u, z, f], which depends on f and on the parameters that it names."""

    def __init__(self, likelihood: ParameterFunction, joint: JointModel, y: Any, n: int):
        self._likelihood, self._joint, self._y, self._n = likelihood, joint, y, n
        middle, _ = joint.parameters.gaussian()
        values = joint.parameters.constrained(middle)
        with without_label_warning():  # the model has issued it, or a line below does
            self.used = likelihood.used(values, y)
        built = likelihood(values, y)
        self._built = None if self.used else built
        if not callable(built):
            raise TypeError(
                f"likelihood must return a function of the latent values, but for these data it returned {built!r}."
            )
        check_latents(built, joint.latents)
        if isinstance(built, Likelihood) and built.y.size != n:
            raise ValueError(f"there are {built.y.size} data for {n} inputs. Expected as many.")

    def __getstate__(self) -> dict[str, Any]:
        compiled = {name for name, value in vars(type(self)).items() if isinstance(value, cached_property)}
        return {name: value for name, value in self.__dict__.items() if name not in compiled}

    def __call__(self, x: Any) -> Any:
        point = self._joint.split(x, self._n)
        return call_with_latents(self.given(point.u), dict(zip(self._joint.latents, point.f, strict=True)))

    @cached_property
    def slopes(self) -> Callable[[Any, Any], tuple[Any, Any, Any]]:
        """Compiled: `laplace.derivatives` at hyperparameters u and latent functions f, shape (latents, n)."""
        return jax.jit(lambda u, f: derivatives(one_matrix_at_a_time(partial(self.at, u)), f))

    @cached_property
    def bends(self) -> Callable[[Any, Any, Any], Any]:
        """Compiled: how the gradient there changes along a direction, (latents, n)."""

        def bends(u: Any, f: Any, along: Any) -> Any:
            return jax.jvp(jax.grad(one_matrix_at_a_time(partial(self.at, u))), (f,), (along,))[1]

        return jax.jit(bends)

    @cached_property
    def terms(self) -> Callable[[Any, Any], Any]:
        """Compiled, of one latent function: what each value adds, (count, n) to the same shape; or `NotFactorised`."""
        return jax.jit(lambda u, f: pointwise(elementwise(self.given(u), self._n, f.dtype, CPU), f))

    @cached_property
    def averages(self) -> Callable[..., tuple[Any, Any, Any]]:
        """Compiled: the averages of `slopes` over f = centre + deviation * points, for points (count, latents)."""

        def over(u: Any, centre: Any, deviation: Any, points: Any) -> Any:
            found = over_axes(lambda point: self.slopes(u, centre + deviation * point[:, None]))(points)
            return jax.tree.map(lambda one: one.mean(0), found)

        return jax.jit(over)

    def at(self, u: Any, f: Any) -> Any:
        """At parameters u and latent functions f, (latents, n), which JAX can trace."""
        return self(Point(jnp.asarray(u), jnp.zeros_like(f), f).flat)

    def given(self, u: Any) -> Callable[..., Any]:
        """The log-likelihood of the latent functions with these parameters."""
        if self._built is not None:
            return self._built
        parameters = self._joint.parameters
        values = parameters.constrained(u) if isinstance(u, np.ndarray) else parameters.constrain(u)
        with without_label_warning():
            return self._likelihood(values, self._y)

    def __repr__(self) -> str:
        name = getattr(self._likelihood.function, "__name__", None) or type(self._likelihood.function).__name__
        return f"PointLikelihood({name} of {np.size(self._y)} data)"

"""The log-likelihood at a point of the joint prior."""

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
    """The log-likelihood at a point x = [u, z, f]. It depends on f, and on the hyperparameters that it names.

    Parameters
    ----------
    likelihood : ParameterFunction
        From y and hyperparameters to the log-likelihood of the latent functions.
    joint : JointModel
    y : array
        Data.
    n : int
        Number of inputs.

    Attributes
    ----------
    used : set of str
        Names of the hyperparameters that the likelihood uses.
    """

    def __init__(self, likelihood: ParameterFunction, joint: JointModel, y: Any, n: int):
        self._likelihood, self._joint, self._y, self._n = likelihood, joint, y, n
        middle, _ = joint.parameters.gaussian()
        values = joint.parameters.constrained(middle)
        with without_label_warning():  # warnings about the data come from the next call of the likelihood
            self.used = likelihood.used(values, y)
        built = likelihood(values, y)
        self._built = None if self.used else built
        if not callable(built):
            raise TypeError(
                f"likelihood must return a function of the latent vector, but for these data it returned {built!r}. "
                "Return one of es.likelihoods, or a function of f."
            )
        check_latents(built, joint.latents)
        if isinstance(built, Likelihood) and built.y.size != n:
            raise ValueError(
                f"there are {built.y.size} observations, but {n} inputs. Give one observation for each input."
            )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without compiled functions, which cannot be pickled."""
        compiled = {name for name, value in vars(type(self)).items() if isinstance(value, cached_property)}
        return {name: value for name, value in self.__dict__.items() if name not in compiled}

    def __call__(self, x: Any) -> Any:
        point = self._joint.split(x, self._n)
        return call_with_latents(self.of_latents(point.u), dict(zip(self._joint.latents, point.f, strict=True)))

    @cached_property
    def derivatives(self) -> Callable[[Any, Any], tuple[Any, Any, Any]]:
        """Compiled function of u and f, shape (latents, n): the value, and first and second derivatives per element."""
        return jax.jit(lambda u, f: derivatives(one_matrix_at_a_time(partial(self.at, u)), f))

    @cached_property
    def hessian_product(self) -> Callable[[Any, Any, Any], Any]:
        """Compiled function of u, f and a direction, shape (latents, n): the Hessian at f times the direction."""

        def hessian_product(u: Any, f: Any, along: Any) -> Any:
            return jax.jvp(jax.grad(one_matrix_at_a_time(partial(self.at, u))), (f,), (along,))[1]

        return jax.jit(hessian_product)

    @cached_property
    def pointwise(self) -> Callable[[Any, Any], Any]:
        """Compiled function of u and values f of one latent function, shape (count, n): the pointwise log-likelihood.

        It has the shape of f. It raises `NotFactorised` if the log-likelihood does not factorise over the elements of
        f.
        """
        return jax.jit(lambda u, f: pointwise(elementwise(self.of_latents(u), self._n, f.dtype, CPU), f))

    @cached_property
    def averages(self) -> Callable[..., tuple[Any, Any, Any]]:
        """Compiled function of u, centre, std and points: the averages of `derivatives` over f = centre + std * point.

        Points have shape (count, latents), centre and std (latents, n).
        """

        def averages(u: Any, centre: Any, std: Any, points: Any) -> Any:
            found = over_axes(lambda point: self.derivatives(u, centre + std * point[:, None]))(points)
            return jax.tree.map(lambda one: one.mean(0), found)

        return jax.jit(averages)

    def at(self, u: Any, f: Any) -> Any:
        """Return the log-likelihood at hyperparameters u and latent functions f, shape (latents, n), in JAX."""
        return self(Point(jnp.asarray(u), jnp.zeros_like(f), f).flat)

    def of_latents(self, u: Any) -> Callable[..., Any]:
        """Return the log-likelihood for hyperparameters u, as a function of the latent functions."""
        if self._built is not None:
            return self._built
        parameters = self._joint.parameters
        values = parameters.constrained(u) if isinstance(u, np.ndarray) else parameters.constrain(u)
        with without_label_warning():
            return self._likelihood(values, self._y)

    def __repr__(self) -> str:
        name = getattr(self._likelihood.function, "__name__", None) or type(self._likelihood.function).__name__
        return f"PointLikelihood({name} of {np.size(self._y)} data)"

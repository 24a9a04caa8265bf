"""The log-likelihood of a point of the joint prior."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.gp.calling import Called
from ellipslice.gp.joint import Joint
from ellipslice.likelihoods import Likelihood
from ellipslice.references.laplace import slopes


class PointLikelihood:
    """The log-likelihood of data y at x = [u, z, f], which depends on f and on the parameters that it names."""

    def __init__(self, likelihood: Called, joint: Joint, y: Any, n: int):
        self._likelihood, self._joint, self._y, self._n = likelihood, joint, y, n
        middle, _ = joint.parameters.gaussian()
        values = joint.parameters.constrained(middle)
        self.used = likelihood.used(values, y)
        built = likelihood(values, y)
        self._built = None if self.used else built
        if not callable(built):
            raise TypeError(
                f"likelihood must return a function of the latent values, but for these data it returned {built!r}."
            )
        if isinstance(built, Likelihood) and built.y.size != n and len(joint.latents) == 1:
            raise ValueError(f"there are {built.y.size} data for {n} inputs. Expected as many.")

    def __call__(self, x: Any) -> Any:
        point = self._joint.split(x, self._n)
        function = self.given(point.u)
        names = self._joint.latents
        return function(point.f[0]) if names == ["f"] else function(**dict(zip(names, point.f, strict=True)))

    @cached_property
    def slopes(self) -> Callable[[Any, Any], tuple[Any, Any, Any]]:
        """Compiled: at parameters u and latent functions f, (latents, n), what `references.laplace.slopes` gives."""

        def at(u: Any, f: Any) -> tuple[Any, Any, Any]:
            return slopes(lambda f: self(jnp.concatenate([u, jnp.zeros(f.size), f.ravel()])), f)

        return jax.jit(at)

    def given(self, u: Any) -> Callable[..., Any]:
        """The log-likelihood of the latent functions with these parameters."""
        if self._built is not None:
            return self._built
        parameters = self._joint.parameters
        values = parameters.constrained(u) if isinstance(u, np.ndarray) else parameters.constrain(u)
        return self._likelihood(values, self._y)

    def __repr__(self) -> str:
        name = getattr(self._likelihood.function, "__name__", None) or type(self._likelihood.function).__name__
        return f"PointLikelihood({name} of {np.size(self._y)} data)"

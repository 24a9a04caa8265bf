"""The joint prior p(u) N(f; m(u), Sigma(u)) of hyperparameters and latent functions, and points of it.

A point is x = [u, z, f]: the unconstrained hyperparameters, the white noise, and f = m(u) + L(u) z, which the
likelihood takes. z and f determine each other; both are kept so that no update has to compute one from the other.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.parameters.kernel_factors import KernelFactors
from ellipslice.parameters.parameters import Parameters
from ellipslice.parameters.pivots import Pivots
from ellipslice.priors.base import Layout, Prior


class Point(NamedTuple):
    """One point of the joint prior."""

    u: Any
    z: Any
    """Shape (latents, n)."""
    f: Any
    """Shape (latents, n)."""

    @property
    def flat(self) -> Any:
        """The point as one vector."""
        xp = np if isinstance(self.u, np.ndarray) else jnp
        return xp.concatenate([self.u, self.z.ravel(), self.f.ravel()])


class JointModel:
    """The joint prior of hyperparameters and latent functions at inputs that are handed over later; hashable.

    Parameters
    ----------
    parameters : Parameters
    factors : KernelFactors
        From hyperparameters to the factor of the covariance, and the means, of the latent functions.
    """

    def __init__(self, parameters: Parameters, factors: KernelFactors):
        self.parameters, self.factors = parameters, factors

    @property
    def latents(self) -> list[str]:
        """The names of the latent functions."""
        return self.factors.latents

    def point(self, u: np.ndarray, z: np.ndarray, inputs: np.ndarray, pivots: Pivots | None = None) -> Point:
        """Return the point with these hyperparameters and this white noise, on the host."""
        return self.factors.apply(u, inputs, pivots, lambda factor, mean: Point(u, z, mean + factor.unwhiten(z)))

    def split(self, x: Any, n: int) -> Point:
        """Return the parts of a flat point with n inputs."""
        d, k = self.parameters.size, len(self.latents)
        return Point(x[:d], x[d : d + k * n].reshape(k, n), x[d + k * n :].reshape(k, n))

    def __repr__(self) -> str:
        return f"JointModel({', '.join(self.parameters.priors)}; {', '.join(self.latents)})"


class JointPrior(Prior):
    """The joint prior at given inputs, as `sample` takes priors. It is not a Gaussian: it has its own move."""

    instead = "it is the prior of parameters and latent functions together. Leave move out."

    def __init__(self, joint: JointModel, inputs: np.ndarray):
        self.joint, self.inputs = joint, inputs
        size = len(joint.latents) * len(inputs)
        self.mean, self.shape = None, (joint.parameters.size + 2 * size,)

    @property
    def layout(self) -> Layout:
        return (("f", self.shape),)

    @property
    def noise_size(self) -> int:
        raise TypeError("it is not a linear map of normals")

    def unwhiten(self, z: Any) -> Any:
        raise TypeError("it is not a linear map of normals")

    @property
    def linear(self) -> bool:
        return False

    @property
    def traceable(self) -> bool:
        return False

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return points, shape (count, size)."""
        u = self.joint.parameters.draw(rng, count)
        z = rng.standard_normal((count, len(self.joint.latents), len(self.inputs)))
        return np.stack([self.joint.point(u[i], z[i], self.inputs).flat for i in range(count)])

    def stored(self) -> list[Any]:
        """Return what a store keeps of it, to recognise another model."""
        return [self.inputs, *self.joint.parameters.stored(), *self._fingerprint]

    @cached_property
    def _fingerprint(self) -> list[np.ndarray]:
        return self.joint.factors.fingerprint(self.inputs)

    def __repr__(self) -> str:
        names = ", ".join(self.joint.parameters.priors)
        return f"JointPrior({names}; {', '.join(self.joint.latents)} at {len(self.inputs)} inputs)"


jax.tree_util.register_static(JointPrior)

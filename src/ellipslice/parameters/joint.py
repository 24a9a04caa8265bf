"""The joint prior p(u) N(f; m(u), Sigma(u)) of hyperparameters and latent functions, and points of it.

A point is x = [u, z, f]: the unconstrained hyperparameters u, the white noise z, and the latent functions f = m(u) +
L(u) z. Given u, z and f determine each other. Both are kept, so that no update has to compute one from the other.
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
from ellipslice.priors.parts.only_draws import OnlyDraws


class Point(NamedTuple):
    """One point of the joint prior."""

    u: Any
    """Unconstrained hyperparameters, shape (size,)."""
    z: Any
    """White noise, shape (latents, n)."""
    f: Any
    """Latent functions at the inputs, shape (latents, n)."""

    @property
    def flat(self) -> Any:
        """The point as one vector, the concatenation of u, z and f."""
        xp = np if isinstance(self.u, np.ndarray) else jnp
        return xp.concatenate([self.u, self.z.ravel(), self.f.ravel()])


class JointModel:
    """The joint prior of hyperparameters and latent functions, for inputs that are given to its methods; hashable.

    Parameters
    ----------
    parameters : Parameters
        The hyperparameters with their priors.
    factors : KernelFactors
        From hyperparameters to the means, and the factors of the covariances, of the latent functions.
    """

    def __init__(self, parameters: Parameters, factors: KernelFactors):
        self.parameters, self.factors = parameters, factors

    @property
    def latents(self) -> list[str]:
        """Names of the latent functions."""
        return self.factors.latents

    def point(self, u: np.ndarray, z: np.ndarray, inputs: np.ndarray, pivots: Pivots | None = None) -> Point:
        """Return the point with hyperparameters u and white noise z, on the host."""
        return self.factors.apply(u, inputs, pivots, lambda factor, mean: Point(u, z, mean + factor.unwhiten(z)))

    def split(self, x: Any, n: int) -> Point:
        """Return a flat vector x as a point, for n inputs."""
        d, k = self.parameters.size, len(self.latents)
        return Point(x[:d], x[d : d + k * n].reshape(k, n), x[d + k * n :].reshape(k, n))

    def __repr__(self) -> str:
        return f"JointModel({', '.join(self.parameters.priors)}; {', '.join(self.latents)})"


class JointPrior(OnlyDraws):
    """The joint prior at given inputs, as a prior for `sample`. It is not Gaussian, so it has its own move."""

    instead = "it is the joint prior of hyperparameters and latent functions, which has its own move. Leave move out."

    def __init__(self, joint: JointModel, inputs: np.ndarray):
        self.joint, self.inputs = joint, inputs
        size = len(joint.latents) * len(inputs)
        self.mean, self.shape = None, (joint.parameters.size + 2 * size,)

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return draws of flat points, shape (count, size)."""
        u = self.joint.parameters.draw(rng, count)
        z = rng.standard_normal((count, len(self.joint.latents), len(self.inputs)))
        return np.stack([self.joint.point(u[i], z[i], self.inputs).flat for i in range(count)])

    def stored(self) -> list[Any]:
        """Return what a store keeps to recognise another model: inputs, priors, and a fingerprint of the kernels."""
        return [self.inputs, *self.joint.parameters.stored(), *self._fingerprint]

    @cached_property
    def _fingerprint(self) -> list[np.ndarray]:
        return self.joint.factors.fingerprint(self.inputs)

    def __repr__(self) -> str:
        names = ", ".join(self.joint.parameters.priors)
        return f"JointPrior({names}; {', '.join(self.joint.latents)} at {len(self.inputs)} inputs)"


jax.tree_util.register_static(JointPrior)

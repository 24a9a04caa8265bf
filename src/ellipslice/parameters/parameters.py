"""Unknown parameters: their priors, and the unconstrained vector u that chains move in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.jax_settings import on_cpu

DRAWS = 4000
"""Prior draws that say where u is and how wide."""


class Parameters:
    """Named parameters with independent priors, as one vector u without constraints.

    A parameter of a numpyro distribution is a smooth function of its part of u (the exponential, where it must be
    positive), so u has a density on all of space. Chains move u on ellipses, for which they need a Gaussian near it.

    Parameters
    ----------
    priors : mapping of str to numpyro.distributions.Distribution
    """

    def __init__(self, priors: Mapping[str, Any] | None):
        self.priors = dict(priors or {})
        self._transforms: dict[str, Any] = {}
        self._spans: dict[str, tuple[slice, tuple[int, ...]]] = {}
        start = 0
        with on_cpu():
            for name, prior in self.priors.items():
                self._transforms[name], shape = _unconstrained(name, prior)
                stop = start + int(np.prod(shape, dtype=int))
                self._spans[name] = slice(start, stop), shape
                start = stop
        self.size = start
        self._compile()

    def _compile(self) -> None:
        self._on_host = jax.jit(self._log_density)
        self._constrain = jax.jit(self.constrain)

    def __getstate__(self) -> dict[str, Any]:
        compiled = ("_on_host", "_constrain")  # which cannot be sent to workers, and are made again there
        return {name: value for name, value in self.__dict__.items() if name not in compiled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._compile()

    def __eq__(self, other: object) -> bool:
        mine = [(name, id(prior)) for name, prior in self.priors.items()]
        return isinstance(other, Parameters) and mine == [(name, id(prior)) for name, prior in other.priors.items()]

    def __hash__(self) -> int:
        return hash(tuple((name, id(prior)) for name, prior in self.priors.items()))

    def stored(self) -> list[Any]:
        """Names and families of the priors, where they are and their density there: for a store to notice others.

        To six digits, which are the same anywhere. (A distribution's own numbers come in another order in another
        process.)
        """
        centre, deviation = self.gaussian()
        numbers = [*centre, *deviation, *(self.log_density(centre + step * deviation) for step in (-1.0, 0.0, 2.0))]
        names = [f"{name} {type(prior).__name__}" for name, prior in self.priors.items()]
        return [*names, np.array([float(f"{number:.6g}") for number in numbers])]

    @property
    def elements(self) -> tuple[str, ...]:
        """The names of the elements of u: that of the parameter, with a number where it has several: "scale[1]"."""
        counted = [(name, span.stop - span.start) for name, (span, _) in self._spans.items()]
        return tuple(name if n == 1 else f"{name}[{i}]" for name, n in counted for i in range(n))

    def where(self, names: Any) -> np.ndarray:
        """The indices in u of some parameters."""
        spans = [np.arange(self.size)[span] for name, (span, _) in self._spans.items() if name in names]
        return np.concatenate([np.zeros(0, int), *spans])

    def constrain(self, u: Any) -> dict[str, Any]:
        """The parameters of one u, or of each of a batch along leading axes."""
        parts = {name: u[..., span].reshape(*u.shape[:-1], *shape) for name, (span, shape) in self._spans.items()}
        return {name: self._transforms[name](part) for name, part in parts.items()}

    def constrained(self, u: np.ndarray) -> dict[str, np.ndarray]:
        """The same on the host."""
        with on_cpu():
            return {name: np.asarray(value) for name, value in self._constrain(u).items()}

    def unconstrain(self, values: Mapping[str, Any]) -> np.ndarray:
        """The u of some parameters' values, batches along leading axes included."""
        parts = []
        with on_cpu():
            for name, (_, shape) in self._spans.items():
                u = np.asarray(self._transforms[name].inv(jnp.asarray(values[name], float)))
                parts.append(u.reshape(*u.shape[: u.ndim - len(shape)], -1))
        return np.concatenate(parts, -1)

    def log_density(self, u: Any) -> Any:
        """The logarithm of the prior's density at one u."""
        if not isinstance(u, np.ndarray):
            return self._log_density(u)
        with on_cpu():
            return float(self._on_host(u))

    def _log_density(self, u: Any) -> Any:
        total = jnp.zeros(())
        for name, (span, shape) in self._spans.items():
            transform, part = self._transforms[name], u[span].reshape(shape)
            value = transform(part)
            total += self.priors[name].log_prob(value).sum() + transform.log_abs_det_jacobian(part, value).sum()
        return total

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Prior draws of u, shape (count, size)."""
        with on_cpu():
            keys = jax.random.split(jax.random.key(int(rng.integers(2**63))), max(1, len(self.priors)))
            values = {
                name: prior.sample(key, (count,)) for key, (name, prior) in zip(keys, self.priors.items(), strict=False)
            }
        return self.unconstrain(values) if values else np.zeros((count, 0))

    def gaussian(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the standard deviations of a Gaussian near the prior of u."""
        return self._gaussian

    @cached_property
    def _gaussian(self) -> tuple[np.ndarray, np.ndarray]:
        u = self.draw(np.random.default_rng(0), DRAWS)
        with np.errstate(invalid="ignore"):  # infinite draws are refused below, in words
            low, middle, high = np.quantile(u, [0.1587, 0.5, 0.8413], axis=0)
            deviation = (high - low) / 2
        for name, (span, _) in self._spans.items():
            if not np.isfinite(middle[span]).all() or not np.isfinite(deviation[span]).all():
                given = type(self.priors[name]).__name__
                raise ValueError(
                    f"parameters[{name!r}] has draws that are not finite, or not inside its support. Expected a prior "
                    f"with a density. Check the arguments of {given}."
                )
            if not (deviation[span] > 0).all():
                raise ValueError(constant(name))
        middle.flags.writeable = deviation.flags.writeable = False  # they are handed out again and again
        return middle, deviation


def constant(name: str) -> str:
    """The message for a parameter whose prior has no spread."""
    return (
        f"parameters[{name!r}] is a constant: its prior has no spread. Expected a parameter with a density. Write the "
        "value into the kernel, the mean or the likelihood, and leave it out of parameters."
    )


def _is_constant(prior: Any) -> bool:
    """Whether it is a Delta, whatever is around it."""
    from numpyro.distributions import Delta

    while not isinstance(prior, Delta):
        if not hasattr(prior, "base_dist"):
            return False
        prior = prior.base_dist
    return True


def _unconstrained(name: str, prior: Any) -> tuple[Any, tuple[int, ...]]:
    """The map from unconstrained values to the parameter's, and their shape."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"parameters has the name {name!r}; expected one that a function's argument can have.")
    try:
        from numpyro.distributions import Distribution, biject_to
    except ImportError:
        raise ImportError(
            'unknown parameters need numpyro, for its distributions: pip install "ellipslice[gp]".'
        ) from None
    if not isinstance(prior, Distribution):
        given = f"the class {prior.__name__}" if isinstance(prior, type) else repr(prior)
        raise TypeError(
            f"parameters[{name!r}] must be a distribution of numpyro, such as numpyro.distributions.LogNormal(0, 1), "
            f"but it is {given}. A parameter that is known goes into the kernel or the likelihood as it is."
        )
    if getattr(prior, "is_discrete", False):
        raise TypeError(f"parameters[{name!r}] is discrete; expected a parameter with a density.")
    if _is_constant(prior):
        raise ValueError(constant(name))
    transform = biject_to(prior.support)
    return transform, tuple(transform.inverse_shape(tuple(prior.batch_shape) + tuple(prior.event_shape)))

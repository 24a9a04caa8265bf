"""Hyperparameters with their priors, as one unconstrained vector u."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.jax_settings import on_cpu

PRIOR_DRAWS = 4000
"""Number of prior draws from which the centre and the width of the prior of u are computed."""

FAR = 40.0
"""Value of u that stands for infinite medians and widths in the stored form of priors."""

ROWS_PER_CALL = 64
"""Number of values of u that one call of compiled code constrains."""

DRAWN_ONE_BY_ONE = ("Normal", "LogNormal", "HalfNormal", "HalfCauchy", "Exponential", "Uniform")
"""Families of NumPyro whose first draws are bit-identical, however many are drawn."""


class Parameters:
    """Named hyperparameters with independent priors, as one unconstrained vector u.

    Each hyperparameter is a smooth function of its part of u, such as the exponential if it is positive. So u has a
    density on the whole space, and chains can move it on the ellipses of a Gaussian that approximates it.

    Parameters
    ----------
    priors : mapping of str to numpyro distribution, or None
        The prior of each hyperparameter.

    Attributes
    ----------
    priors : dict of str to numpyro distribution
    size : int
        Number of elements of u.

    Raises
    ------
    TypeError
        If a prior is not a continuous numpyro distribution.
    ValueError
        If a name cannot be that of an argument, or a prior is a constant.
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
        self._compiled_log_density = jax.jit(self._log_density)
        self._compiled_constrain = jax.jit(self.constrain)
        # A loop and not a batch, which may round differently from one u.
        self._compiled_constrain_rows = jax.jit(lambda u: jax.lax.map(self.constrain, u))

    def __getstate__(self) -> dict[str, Any]:
        compiled = "_compiled_"  # these functions cannot be pickled; workers compile them again
        return {name: value for name, value in self.__dict__.items() if not name.startswith(compiled)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._compile()

    def __eq__(self, other: object) -> bool:
        mine = [(name, id(prior)) for name, prior in self.priors.items()]
        return isinstance(other, Parameters) and mine == [(name, id(prior)) for name, prior in other.priors.items()]

    def __hash__(self) -> int:
        return hash(tuple((name, id(prior)) for name, prior in self.priors.items()))

    def stored(self) -> list[Any]:
        """Return what a store keeps to recognise other priors: names, families, centre, width and some densities.

        Numbers are rounded to six digits, which are equal on every machine. The arguments of the distributions are not
        used, because their order differs between processes.
        """
        centre, std = (np.nan_to_num(each, posinf=FAR, neginf=-FAR) for each in self._quantiles)
        numbers = [*centre, *std, *(self.log_density(centre + step * std) for step in (-1.0, 0.0, 2.0))]
        names = [f"{name} {type(prior).__name__}" for name, prior in self.priors.items()]
        return [*names, np.array([float(f"{number:.6g}") for number in numbers])]

    @property
    def elements(self) -> tuple[str, ...]:
        """Names of the elements of u: that of the hyperparameter, with an index if it has several, as "scale[1]"."""
        counted = [(name, span.stop - span.start) for name, (span, _) in self._spans.items()]
        return tuple(name if n == 1 else f"{name}[{i}]" for name, n in counted for i in range(n))

    def where(self, names: Any) -> np.ndarray:
        """Return the indices in u of the hyperparameters with these names."""
        spans = [np.arange(self.size)[span] for name, (span, _) in self._spans.items() if name in names]
        return np.concatenate([np.zeros(0, int), *spans])

    def constrain(self, u: Any) -> dict[str, Any]:
        """Return the hyperparameters for u, in JAX. u may have leading axes, which the values then have, too."""
        parts = {name: u[..., span].reshape(*u.shape[:-1], *shape) for name, (span, shape) in self._spans.items()}
        return {name: self._transforms[name](part) for name, part in parts.items()}

    def constrained(self, u: np.ndarray) -> dict[str, np.ndarray]:
        """Return the hyperparameters for u as NumPy arrays, computed on the CPU."""
        with on_cpu():
            return {name: np.asarray(value) for name, value in self._compiled_constrain(u).items()}

    def constrained_rows(self, u: np.ndarray) -> dict[str, np.ndarray]:
        """Return the hyperparameters for several u, shape (count, size), equal to those of `constrained` for each."""
        padded = np.zeros((-(-len(u) // ROWS_PER_CALL) * ROWS_PER_CALL, self.size))  # so that one program suffices
        padded[: len(u)] = u
        with on_cpu():
            found = [self._compiled_constrain_rows(rows) for rows in np.split(padded, len(padded) // ROWS_PER_CALL)]
        return {name: np.concatenate([np.asarray(part[name]) for part in found])[: len(u)] for name in found[0]}

    def unconstrain(self, values: Mapping[str, Any]) -> np.ndarray:
        """Return u for values of all hyperparameters, which may have leading axes."""
        parts = []
        with on_cpu():
            for name, (_, shape) in self._spans.items():
                u = np.asarray(self._transforms[name].inv(jnp.asarray(values[name], float)))
                parts.append(u.reshape(*u.shape[: u.ndim - len(shape)], -1))
        return np.concatenate(parts, -1)

    def log_density(self, u: Any) -> Any:
        """Return the log prior density of u at one u, computed by NumPy or JAX as u is."""
        if not isinstance(u, np.ndarray):
            return self._log_density(u)
        with on_cpu():
            return float(self._compiled_log_density(u))

    def _log_density(self, u: Any) -> Any:
        total = jnp.zeros(())
        for name, (span, shape) in self._spans.items():
            transform, part = self._transforms[name], u[span].reshape(shape)
            value = transform(part)
            total += self.priors[name].log_prob(value).sum() + transform.log_abs_det_jacobian(part, value).sum()
        return total

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return prior draws of u, shape (count, size)."""
        drawn = max(count, PRIOR_DRAWS) if self._drawn_one_by_one else count
        with on_cpu():
            keys = jax.random.split(jax.random.key(int(rng.integers(2**63))), max(1, len(self.priors)))
            values = {
                name: prior.sample(key, (drawn,)) for key, (name, prior) in zip(keys, self.priors.items(), strict=False)
            }
        return self.unconstrain(values)[:count] if values else np.zeros((count, 0))

    @property
    def _drawn_one_by_one(self) -> bool:
        """Whether the first draws do not depend on the number of draws, so that one compiled shape suffices."""
        families = {type(prior).__name__ for prior in self.priors.values()}
        return jax.config.jax_threefry_partitionable and families <= set(DRAWN_ONE_BY_ONE)  # pyright: ignore

    def gaussian(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations of a Gaussian approximation of the prior of u, each of shape (size,).

        They are the medians of u, and half the width of the central 68 % interval.
        """
        return self._gaussian

    @cached_property
    def _quantiles(self) -> tuple[np.ndarray, np.ndarray]:
        """Medians of prior draws of u, and half the width of their central 68%. Not finite if many draws are not."""
        with np.errstate(all="ignore"):
            u = self.draw(np.random.default_rng(0), PRIOR_DRAWS)
            low, middle, high = np.quantile(u, [0.1587, 0.5, 0.8413], axis=0)
            return middle, (high - low) / 2

    @cached_property
    def _gaussian(self) -> tuple[np.ndarray, np.ndarray]:
        middle, std = self._quantiles
        for name, (span, _) in self._spans.items():
            if not np.isfinite(middle[span]).all() or not np.isfinite(std[span]).all():
                given = type(self.priors[name]).__name__
                raise ValueError(
                    f"parameters[{name!r}] has prior draws that are not finite or not inside its support. Expected a "
                    f"prior with a density. Check the arguments of {given}."
                )
            if not (std[span] > 0).all():
                raise ValueError(_constant_message(name))
        middle.flags.writeable = std.flags.writeable = False  # all callers share these arrays
        return middle, std


def _constant_message(name: str) -> str:
    """Return the message for a hyperparameter whose prior is a constant."""
    return (
        f"parameters[{name!r}] is a constant: its prior has variance 0. Expected a prior with a density. Write the "
        "value into the kernel, the mean or the likelihood, and leave it out of parameters."
    )


def _is_constant(prior: Any) -> bool:
    """Return whether a prior is a Delta, possibly inside other distributions."""
    from numpyro.distributions import Delta

    while not isinstance(prior, Delta):
        if not hasattr(prior, "base_dist"):
            return False
        prior = prior.base_dist
    return True


def _unconstrained(name: str, prior: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the map from unconstrained values to those of the hyperparameter, and the unconstrained shape."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"parameters has the name {name!r}. Expected a valid name of a function's argument.")
    try:
        from numpyro.distributions import Distribution, biject_to
    except ImportError:
        raise ImportError(
            "hyperparameters require the distributions of numpyro. Install it with: pip install 'ellipslice[gp]'."
        ) from None
    if not isinstance(prior, Distribution):
        given = f"the class {prior.__name__}" if isinstance(prior, type) else repr(prior)
        raise TypeError(
            f"parameters[{name!r}] must be a distribution of numpyro, such as numpyro.distributions.LogNormal(0, 1), "
            f"but it is {given}. Write a known value into the kernel, the mean or the likelihood instead."
        )
    if getattr(prior, "is_discrete", False):
        raise TypeError(f"parameters[{name!r}] has a discrete prior. Expected a continuous distribution.")
    if _is_constant(prior):
        raise ValueError(_constant_message(name))
    transform = biject_to(prior.support)
    return transform, tuple(transform.inverse_shape(tuple(prior.batch_shape) + tuple(prior.event_shape)))

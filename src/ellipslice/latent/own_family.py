"""Families of users: a function of the response and the linear predictor, or a class that derives from `Likelihood`.

The function is `log_density(y, eta, **parameters)`, written with `jax.numpy`. It gets all observed rows and returns one
log density per row, including the terms that depend on unknown parameters. Each further argument without a default
value is an unknown parameter, which requires a prior, or a known value. JAX computes the derivatives.

A class has a response and parameters as arguments, with the same rules. It can also state expected responses and
simulate, so that predictions have all parts.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.jax_settings import on_cpu
from ellipslice.latent.family import REAL, Family
from ellipslice.latent.family_parameters import FamilyParameter
from ellipslice.likelihoods import Likelihood
from ellipslice.pytree import pytree, set_fields, static


@pytree
class FunctionLikelihood(Likelihood):
    """Log-likelihood of a function log_density(y, f, **arguments) that returns one value per observation.

    Parameters
    ----------
    y : array, shape (rows,)
    function : callable
    arguments : float or array
        Further arguments of the function: one number, or one per observation.
    """

    y: Any
    arguments: Any
    function: Any = static()

    def __init__(self, y: Any, function: Callable[..., Any], **arguments: Any):
        values = {name: np.asarray(value, dtype=np.float64) for name, value in arguments.items()}
        set_fields(self, y=np.asarray(y, dtype=np.float64), arguments=values, function=function)

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        if xp is np:
            with on_cpu():
                return np.asarray(_compiled(self, f))
        if f.ndim == self.y.ndim:
            return self._values(f)
        rows = f.reshape(-1, *self.y.shape)
        return jax.vmap(self._values)(rows).reshape(f.shape)

    def _values(self, f: Any) -> Any:
        """Return the values of the function at one linear predictor. Raise if it has another shape."""
        name = getattr(self.function, "__name__", "the function")
        try:
            found = jnp.asarray(self.function(jnp.asarray(self.y), f, **self.arguments))
        except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
            raise TypeError(
                f"the family {name} cannot be traced by JAX. Write it with jax.numpy instead of NumPy, and with "
                f"jax.numpy.where instead of if. JAX's message: {str(error).splitlines()[0]}"
            ) from None
        if found.shape != f.shape:
            raise ValueError(
                f"the family {name} returns shape {found.shape} for {f.shape[0]} responses. Expected one log density "
                f"per response, shape {f.shape}: do not sum."
            )
        return found

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        raise NotImplementedError(
            "a family that is a function cannot simulate. Write a class that derives from es.likelihoods.Likelihood."
        )


@jax.jit
def _compiled(likelihood: FunctionLikelihood, f: Any) -> Any:
    return likelihood._pointwise(f, jnp, None)


def family_of_function(function: Callable[..., Any]) -> Family:
    """Return the family of a function log_density(y, eta, **parameters).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> def laplace(y, eta, scale):
    ...     return -jnp.abs(y - eta) / scale - jnp.log(2 * scale)
    >>> family = family_of_function(laplace)
    >>> family
    Family(laplace, own link, parameters: scale)
    >>> family.make_likelihood(np.zeros(2), scale=0.5).pointwise(np.array([0.5, 1.0]))
    array([-1., -2.])
    """
    names = list(inspect.signature(function).parameters)
    if len(names) < 2:
        raise TypeError(
            f"the family {function.__name__} has the arguments {', '.join(names) or 'none'}. Expected "
            "log_density(y, eta, ...): the responses, the linear predictor, and parameters."
        )
    unknown, columns = _arguments(function, 2)
    likelihood = functools.partial(FunctionLikelihood, function=function)
    return Family(function.__name__, likelihood, "own", REAL, unknown, columns=columns, predicts=False)


def family_of_class(cls: type[Likelihood]) -> Family:
    """Return the family of a class that derives from `Likelihood`; f is the linear predictor."""
    unknown, columns = _arguments(cls, 1)
    predicts = cls.expected is not Likelihood.expected
    return Family(cls.__name__, cls, "own", REAL, unknown, columns=columns, predicts=predicts)


def _arguments(function: Any, skipped: int) -> tuple[dict[str, FamilyParameter], dict[str, str]]:
    """Return the unknown parameters and the arguments with default values."""
    unknown, columns = {}, {}
    for name, each in list(inspect.signature(function).parameters.items())[skipped:]:
        if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            raise TypeError(f"the family {function.__name__} has the argument {name!r}. Give every parameter a name.")
        if each.default is each.empty:
            unknown[name] = FamilyParameter("parameter of the family", "none", None)
        else:
            columns[name] = name
    return unknown, columns

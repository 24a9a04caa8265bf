"""The hyperparameters of a model: those of its terms and of its family, with priors, as one unconstrained vector u."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.jax_settings import on_cpu
from ellipslice.latent.hyperpriors import support_of
from ellipslice.parameters.parameters import Parameters


class Values(NamedTuple):
    """Values of all hyperparameters."""

    of_terms: list[dict[str, float]]
    """One mapping for each term, by the term's own names."""
    of_family: dict[str, float]
    log_density: float
    """Log prior density of u."""


class Hyperparameters:
    """Named hyperparameters of terms and family.

    Parameters
    ----------
    of_terms : mapping of str to mapping
        Priors by the name of the term, and by the term's own name of the hyperparameter.
    of_family : mapping of str to numpyro distribution
        Priors of the unknown parameters of the family.
    unit : float
        Unit of the linear predictor, the typical size of standard deviations. Default: 1.

    Attributes
    ----------
    names : tuple of str
        Names in results: that of the term and its own, as "age_sd"; those of the family are unchanged.
    family : list of str
        Names of the family's unknown parameters.
    parameters : Parameters
    """

    def __init__(self, of_terms: Mapping[str, Mapping[str, Any]], of_family: Mapping[str, Any], unit: float = 1.0):
        self._own = [[*priors] for priors in of_terms.values()]
        self.family = [*of_family]
        priors = {f"{term}_{name}": prior for term, own in of_terms.items() for name, prior in own.items()}
        if clash := set(priors) & set(of_family):
            raise ValueError(
                f"{clash.pop()!r} is the name of a hyperparameter of a term and of the family. Give the term another "
                "name: name=..."
            )
        self.parameters = Parameters({**priors, **of_family})
        self.names: Sequence[str] = tuple(self.parameters.priors)
        for name, element in zip(self.names, self.parameters.elements, strict=False):
            if name != element or len(self.names) != self.parameters.size:
                raise ValueError(f"the prior of {name} is not a distribution of one number. Expected one.")
        supports = [support_of(prior) for prior in self.parameters.priors.values()]
        self._shift = np.array([math.log(unit) if each == (0.0, math.inf) else 0.0 for each in supports])
        self._compile()

    def _compile(self) -> None:
        self._compiled = jax.jit(self._values_and_density)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_compiled"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._compile()

    @property
    def size(self) -> int:
        """Number of hyperparameters."""
        return self.parameters.size

    def _values_and_density(self, u: Any) -> Any:
        values = self.parameters.constrain(u)
        return jnp.stack([*(values[name].reshape(()) for name in self.names), self.parameters.log_density(u)])

    def at(self, u: np.ndarray) -> Values:
        """Return the values of all hyperparameters for an unconstrained vector u."""
        if not self.size:
            return Values([{} for _ in self._own], {}, 0.0)
        with on_cpu():
            *values, log_density = np.asarray(self._compiled(u)).tolist()
        rest = iter(values)
        of_terms = [{name: next(rest) for name in own} for own in self._own]
        return Values(of_terms, {name: next(rest) for name in self.family}, log_density)

    def start(self) -> np.ndarray:
        """Return a moderate value of u: the median of a few prior draws, at most 3 from 0 or from the unit."""
        with np.errstate(all="ignore"):
            u = self.parameters.draw(np.random.default_rng(0), 400)
        return np.clip(
            np.nan_to_num(np.median(u, axis=0)), np.minimum(self._shift, 0) - 3, np.maximum(self._shift, 0) + 3
        )

"""Simulation-based calibration of the families of `LatentGaussianModel` that `latent_ranks` does not have.

The priors are those that people use: the defaults of the families, except where these depend on the responses. Survival
times are censored at known times.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpyro.distributions as dist

from ellipslice import LatentGaussianModel
from ellipslice.latent.terms import IID, Fixed, pc_prior
from proof.latent_ranks import DATA, ROWS, ranks_of
from proof.task import Task, parts
from proof.uniform import not_uniform

FULL = {"fits": 200, "cases": None}
SHORT = {"fits": 40, "cases": ["weibull", "zero_inflated_poisson"]}

CENSORED_AT = np.exp(np.linspace(-1.0, 2.0, ROWS))
"""Times at which the observation of each row ends."""


@dataclass(frozen=True)
class Case:
    """A model with a level, a slope and ten groups, of which only the responses change."""

    family: Any
    options: dict[str, Any] = field(default_factory=dict)
    censored: bool = False
    example: float = 1.0

    def model(self, y: Any = None) -> LatentGaussianModel:
        """Return the model for some responses, which are censored if they are survival times."""
        y = np.full(ROWS, self.example) if y is None else np.asarray(y)
        options = dict(self.options)
        if self.censored:
            options["known"] = {"event": (y <= CENSORED_AT).astype(float)}
            y = np.minimum(y, CENSORED_AT)
        terms = [Fixed(["1", "x"], sd=[1.0, 0.7]), IID("g", prior=pc_prior(1.0, 0.05))]
        return LatentGaussianModel(y, terms, data=DATA, family=self.family, **options)


CASES: dict[str, Any] = {
    "student_t": Case("student_t", {"priors": {"noise_scale": dist.LogNormal(-0.5, 0.4)}}),
    "bernoulli, probit": Case("bernoulli", {"link": "probit"}),
    "bernoulli, cloglog": Case("bernoulli", {"link": "cloglog"}),
    "binomial, probit": Case("binomial", {"link": "probit", "trials": 4}),
    "binomial, cloglog": Case("binomial", {"link": "cloglog", "trials": 4}),
    "gamma": Case("gamma"),
    "beta": Case("beta", {"priors": {"precision": dist.LogNormal(2.3, 1.0)}}, example=0.5),
    "exponential": Case("exponential", censored=True),
    "weibull": Case("weibull", censored=True),
    "zero_inflated_poisson": Case("zero_inflated_poisson"),
    "zero_inflated_negative_binomial": Case("zero_inflated_negative_binomial"),
    "zero_inflated_binomial": Case("zero_inflated_binomial", {"trials": 5}),
    "ordinal": Case("ordinal", {"known": {"categories": 4}}),
    "stochastic_volatility": Case("stochastic_volatility"),
}

problems = not_uniform


def tasks(fits: int, cases: list[str] | None) -> list[Task]:
    return [
        partial(ranks_of_case, name, *part) for case, name in enumerate(cases or CASES) for part in parts(fits, case)
    ]


def ranks_of_case(name: str, fits: int, seed: int) -> dict[str, list[int]]:
    """Return the occurrences of each rank for one case, with its name."""
    return {f"{name}: {each}": values for each, values in ranks_of(CASES[name], fits, seed).items()}

"""Simulation-based calibration of `LatentGaussianModel`: every term, every family, whole fits with their pilot runs.

Hyperparameters, effects and responses come from the prior predictive distribution, so each ranks uniformly among its
draws. Binary responses of twenty groups of four, which identify their standard deviation weakly, are one of the cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpyro.distributions as dist

from ellipslice import LatentGaussianModel
from ellipslice.latent.terms import AR1, BYM, BYM2, ICAR, IID, RW1, RW2, Fixed, pc_prior
from proof.task import Task, parts
from proof.uniform import counts, not_uniform, rank

FULL = {"fits": 200, "cases": None}
SHORT = {"fits": 50, "cases": ["binary groups", "BYM2"]}

DRAWS = 9  # 10 ranks
OPTIONS = {"draws": DRAWS, "thin": 15, "warmup": 80, "chains": 1, "progress": False}

ROWS = 60
_rng = np.random.default_rng(20)
DATA = {
    "x": _rng.standard_normal(ROWS),
    "g": np.repeat(np.arange(10), 6),
    "t": np.arange(ROWS) % 15,
    "age": np.array([20.0, 22.0, 27.0, 28.0, 40.0, 41.0, 50.0, 60.0])[np.arange(ROWS) % 8],
    "region": np.arange(ROWS) % 12,
}
GROUPS = {"g": np.repeat(np.arange(20), 4), "x": _rng.standard_normal(80)}
EDGES = [(i, i + 1) for i in range(6)] + [(0, 3), (1, 5), (2, 6)] + [(7, 8), (8, 9), (9, 10), (7, 10)]
GRAPH = {"graph": EDGES, "regions": range(12)}
"""Two connected components and an island."""
SD = dist.LogNormal(-0.7, 0.6)
LEVEL = Fixed("1", sd=0.7)


@dataclass(frozen=True)
class Case:
    """A model, of which only the responses change."""

    family: str
    terms: Callable[[], list[Any]]
    data: dict[str, np.ndarray] = field(default_factory=lambda: DATA)
    options: dict[str, Any] = field(default_factory=dict)

    def model(self, y: Any = None) -> LatentGaussianModel:
        """Return the model for some responses."""
        rows = len(next(iter(self.data.values())))
        y = np.arange(rows) % 2 if y is None else y
        return LatentGaussianModel(y, self.terms(), data=self.data, family=self.family, **self.options)


NOISE = {"priors": {"noise_scale": dist.LogNormal(-0.5, 0.4)}}
DISPERSION = {"priors": {"dispersion": dist.LogNormal(1.5, 0.5)}}
CASES = {
    "Fixed": Case("gaussian", lambda: [Fixed(["1", "x"], sd=[2.0, 1.0])], options=NOISE),
    "binary groups": Case(
        "bernoulli", lambda: [Fixed(["1", "x"], sd=1.0), IID("g", prior=pc_prior(2.0, 0.05))], data=GROUPS
    ),
    "intercepts and slopes": Case(
        "poisson", lambda: [Fixed(["1", "x"], sd=0.7), IID("g", prior=SD), IID("g", weights="x", prior=SD)]
    ),
    "RW1": Case("poisson", lambda: [LEVEL, RW1("t", prior=SD)], options={"exposure": np.linspace(0.5, 3.0, ROWS)}),
    "RW2": Case(
        "gaussian",
        lambda: [Fixed(["1", "age"], sd=[1.0, 0.05]), RW2("age", constraint="trend", prior=SD, name="smooth")],
        options=NOISE,
    ),
    "RW2, cyclic": Case("binomial", lambda: [LEVEL, RW2("t", cyclic=True, prior=SD)], options={"trials": 4}),
    "AR1": Case("negative_binomial", lambda: [LEVEL, AR1("t", prior=SD)], options=DISPERSION),
    "ICAR": Case("binomial", lambda: [LEVEL, ICAR("region", **GRAPH, prior=SD)], options={"trials": 3}),
    "BYM": Case("poisson", lambda: [LEVEL, BYM("region", **GRAPH, prior=SD)]),
    "BYM2": Case("negative_binomial", lambda: [LEVEL, BYM2("region", **GRAPH, prior=SD)], options=DISPERSION),
}

problems = not_uniform


def tasks(fits: int, cases: list[str] | None) -> list[Task]:
    return [
        partial(ranks_of_case, name, *part) for case, name in enumerate(cases or CASES) for part in parts(fits, case)
    ]


def ranks_of_case(name: str, fits: int, seed: int) -> dict[str, list[int]]:
    """Return the occurrences of each rank for one case, with its name."""
    return {f"{name}: {each}": values for each, values in ranks_of(CASES[name], fits, seed).items()}


def ranks_of(case: Case, fits: int, seed: int) -> dict[str, list[int]]:
    """Return the occurrences of each rank, for every hyperparameter, some effects and the log-likelihood."""
    template = case.model()
    prior = template.prior_predictive(draws=fits, seed=seed)
    ranks: dict[str, list[int]] = {}
    for number in range(fits):
        truth = prior.isel(draw=number)
        model = case.model(truth[template.definition.response_name].values)
        tree = model.fit(seed=seed + 1 + number, **OPTIONS).tree
        draws = {name: tree.posterior[name].values[0] for name in tree.posterior.data_vars}
        likelihood = log_likelihood(model, truth)
        found = {"log-likelihood": rank(likelihood, tree.sample_stats.total_log_likelihood.values[0])}
        for name, values in draws.items():
            own = truth[name].values
            if not own.shape:
                found[name] = rank(own, values)
            else:
                found |= {f"{name}[{i}]": rank(own[i], values[:, i]) for i in sorted({0, len(own) - 1})}
        for name, value in found.items():
            ranks.setdefault(name, []).append(value)
    return counts(ranks, DRAWS)


def log_likelihood(model: LatentGaussianModel, truth: Any) -> float:
    """Return the log-likelihood of the true linear predictor and parameters."""
    own = model.definition
    parameters = {name: float(truth[name]) for name in own.family.parameters}
    return float(own.family.make_likelihood(own.y, **parameters)(truth["linear_predictor"].values))

"""Simulation-based calibration of terms: seasonal effects, structure matrices, fields and Gaussian processes.

If hyperparameters, effects and counts come from the model, each ranks uniformly among its draws. Every data set has its
own pilot run, as every fit has.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpyro.distributions as dist
from tinygp import kernels
from tinygp.kernels import quasisep

import ellipslice as es
from proof.task import Task, parts
from proof.uniform import counts, not_uniform, rank

FULL = {"fits": 300, "names": ("seasonal", "generic", "matern", "gp", "gp_in_time")}
SHORT = {"fits": 20, "names": ("generic", "gp")}

DRAWS = 9  # 10 ranks
OPTIONS = {"draws": DRAWS, "thin": 10, "warmup": 60, "chains": 1, "progress": False}

TIMES = np.arange(36)
NODES = np.stack(np.meshgrid(np.linspace(0, 3, 8), np.linspace(0, 2, 6)), axis=-1).reshape(-1, 2)
RING = 2 * np.eye(10) - np.roll(np.eye(10), 1, axis=0) - np.roll(np.eye(10), -1, axis=0)
SD = es.terms.pc_prior(1.5, 0.05)


def kernel(sd: Any, length: Any) -> Any:
    return sd**2 * kernels.Matern32(length, distance=kernels.distance.L2Distance())


def in_time(sd: Any, length: Any) -> Any:
    return quasisep.Matern32(length, sigma=sd)


TERMS = {
    "seasonal": lambda: es.terms.Seasonal("time", period=4, constraint="pattern", prior=SD),
    "generic": lambda: es.terms.Generic("place", Q=RING, prior=SD),
    "matern": lambda: es.terms.Matern(("x", "y"), spacing=0.5, extension=1.0, prior={"sd": SD}),
    "gp": lambda: es.terms.GP(("x", "y"), kernel=kernel, prior={"sd": SD, "length": dist.LogNormal(0.0, 0.7)}),
    "gp_in_time": lambda: es.terms.GP("time", kernel=in_time, prior={"sd": SD, "length": dist.LogNormal(1.0, 0.7)}),
}
DATA = {
    "time": np.resize(TIMES, 48),
    "place": np.resize(np.arange(10), 48),
    "x": NODES[:, 0],
    "y": NODES[:, 1],
}

problems = not_uniform


def model(name: str, responses: np.ndarray) -> es.LatentGaussianModel:
    """Return a model of counts with an intercept and one term."""
    terms = [es.terms.Fixed(["1"], sd=0.7), TERMS[name]()]
    return es.LatentGaussianModel(responses, terms, data=DATA, family="poisson")


def quantities(values: Any, name: str) -> dict[str, np.ndarray]:
    """Return hyperparameters, the intercept, and the first and last element of the term, each of shape (draws,)."""
    own = [
        each
        for each in values.data_vars
        if str(each).startswith(f"{name}_") and values[each].dims == values["draw"].dims
    ]
    effects = values[name].values.reshape(values.sizes["draw"], -1)
    found = {str(each).removeprefix(f"{name}_"): values[each].values for each in own}
    found["intercept"] = values["fixed"].values.reshape(-1)
    return found | {"first": effects[:, 0], "last": effects[:, -1]}


def tasks(fits: int, names: tuple[str, ...]) -> list[Task]:
    return [partial(ranks_of_term, name, *part) for case, name in enumerate(names) for part in parts(fits, case)]


def ranks_of_term(name: str, fits: int, seed: int) -> dict[str, list[int]]:
    """Return the occurrences of each rank for one term."""
    ranks: dict[str, list[int]] = {}
    example = model(name, np.ones(48))
    term = example.definition.predictor.terms[1].name
    prior = example.prior_predictive(draws=fits, seed=seed)
    truths = quantities(prior, term)
    for fit in range(fits):
        found = model(name, prior["y"].values[fit]).fit(seed=seed + 1 + fit, **OPTIONS)
        drawn = quantities(found.tree["posterior"].to_dataset().isel(chain=0), term)
        for quantity, values in drawn.items():
            ranks.setdefault(f"{name} {quantity}", []).append(rank(truths[quantity][fit], values))
    return counts(ranks, DRAWS)

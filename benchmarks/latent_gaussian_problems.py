"""The problems of `latent_gaussian_models.py`: a model of this library, and the same model in words for NumPyro.

Priors of precisions are gamma distributions, and spatial effects and walks are not scaled, as in the examples of
R-INLA. Coefficients have the standard deviation 1000^(1/2), in the model of epilepsy 100.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpyro.distributions as dist
from scipy import sparse
from tinygp.kernels import quasisep

import ellipslice as es
from ellipslice.latent.terms import AR1, GP, IID, Fixed, gamma_precision

SD = 1000.0**0.5


class Field(NamedTuple):
    """A Gaussian vector with precision `precision * structure`, whose factor has a gamma prior."""

    hyperparameter: str
    """Name of its standard deviation in the results of this library."""
    gamma: tuple[float, float]
    """Shape and rate of the prior of the precision."""
    index: np.ndarray
    """Element of each row."""
    structure: np.ndarray | None = None
    """Matrix; None for independent effects."""
    sum_to_zero: bool = True
    """Whether an intrinsic vector has a sum of zero. Otherwise its null space has a flat prior."""


@dataclass(frozen=True)
class Problem:
    """A model and its data.

    Attributes
    ----------
    make : callable
        Returns the model of this library with a solver. Its other arguments are variables of the formula.
    design, coefficient_sd : array, shape (rows, coefficients); float
        Fixed effects.
    fields : sequence of Field
    y, size : arrays
        Counts and exposures (Poisson), or successes and trials (binomial).
    poisson : bool
    bar : float
        CPU seconds that the project aims at.
    """

    make: Callable[..., Any]
    design: np.ndarray
    fields: tuple[Field, ...]
    y: np.ndarray
    size: np.ndarray
    poisson: bool
    bar: float
    coefficient_sd: float = SD


def seeds() -> Problem:
    """Return germination on 21 plates (R-INLA's example Seeds)."""
    data = dict(es.data.seeds())
    data["both"] = data["x1"] * data["x2"]
    design = np.column_stack([np.ones(21), data["x1"], data["x2"], data["both"]])

    def make(solver: str) -> Any:
        formula = "r ~ x1 + x2 + both + iid(plate, prior=gamma_precision(1, 0.01))"
        return es.LatentGaussianModel(formula, data=data, family="binomial", trials="n", fixed_sd=SD, solver=solver)

    field = Field("plate_sd", (1.0, 0.01), data["plate"] - 1)
    return Problem(make, design, (field,), data["r"], data["n"], False, 1.0)


def epil() -> Problem:
    """Return seizures of 59 patients, with effects of patients and of visits (R-INLA's example Epil)."""
    data: dict[str, Any] = dict(es.data.epil())
    base, treatment = np.log(data["Base"] / 4), data["Trt"]
    columns = {
        "base": base, "treatment": treatment, "both": base * treatment, "age": np.log(data["Age"]), "v4": data["V4"],
    }  # fmt: skip
    data |= {name: values - values.mean() for name, values in columns.items()}
    design = np.column_stack([np.ones(236), *(data[name] for name in columns)])

    def make(solver: str) -> Any:
        formula = (
            "y ~ base + treatment + both + age + v4 + iid(rand, prior=gamma_precision(0.001, 0.001)) "
            "+ iid(Ind, prior=gamma_precision(0.001, 0.001))"
        )
        return es.LatentGaussianModel(formula, data=data, family="poisson", fixed_sd=100.0, solver=solver)

    fields = tuple(Field(f"{name}_sd", (0.001, 0.001), data[name] - 1) for name in ("rand", "Ind"))
    return Problem(make, design, fields, data["y"], np.ones(236), True, 1.0, 100.0)


def scotland_bym() -> Problem:
    """Return lip cancer in Scotland with spatial and independent effects."""
    found = es.data.scotland()
    data = {**found.columns, "x": found.columns["X"] / 10}
    edges, gamma = found.edges, (1.0, 0.0005)
    of_both = gamma_precision(*gamma)

    def make(solver: str, graph: Any = edges, prior: Any = of_both) -> Any:
        formula = "Counts ~ x + bym(Region, graph=graph, scale_model=False, prior=prior)"
        return es.LatentGaussianModel(formula, data=data, family="poisson", exposure="E", fixed_sd=SD, solver=solver)

    index = data["Region"] - 1
    fields = (
        Field("Region_sd_structured", gamma, index, laplacian(edges - 1, 56)),
        Field("Region_sd_unstructured", gamma, index),
    )
    return Problem(make, np.column_stack([np.ones(56), data["x"]]), fields, data["Counts"], data["E"], True, 1.0)


def scotland_bym2() -> Problem:
    """Return lip cancer in Scotland with the term BYM2. It is not in the form that NUTS is given here."""
    found = es.data.scotland()
    data = {**found.columns, "x": found.columns["X"] / 10}
    mixing = dist.TransformedDistribution(dist.Normal(0.0, 1.5), dist.transforms.SigmoidTransform())
    priors = {"sd": es.terms.pc_prior(1.0, 0.01), "phi": mixing}

    def make(solver: str, graph: Any = found.edges, prior: Any = priors) -> Any:
        formula = "Counts ~ x + bym2(Region, graph=graph, prior=prior)"
        return es.LatentGaussianModel(formula, data=data, family="poisson", exposure="E", fixed_sd=SD, solver=solver)

    return Problem(make, np.column_stack([np.ones(56), data["x"]]), (), data["Counts"], data["E"], True, 1.0)


def tokyo() -> Problem:
    """Return rain in Tokyo on each day of the year, with a cyclic random walk."""
    data = es.data.tokyo()
    gamma = (1.0, 0.0001)

    def make(solver: str) -> Any:
        formula = (
            "y ~ 0 + rw2(time, cyclic=True, constraint='none', scale_model=False, prior=gamma_precision(1, 0.0001))"
        )
        return es.LatentGaussianModel(formula, data=data, family="binomial", trials="n", solver=solver)

    differences = np.roll(np.eye(366), -1, 1) - 2 * np.eye(366) + np.roll(np.eye(366), 1, 1)
    field = Field("time_sd", gamma, data["time"] - 1, differences.T @ differences, sum_to_zero=False)
    return Problem(make, np.zeros((366, 0)), (field,), data["y"], data["n"], False, 1.0)


def groups(count: int = 300, seed: int = 3) -> Problem:
    """Return binary responses of groups with four visits each, simulated, in the style of Fong, Rue & Wakefield."""
    rng = np.random.default_rng(seed)
    time, group = np.tile([-3.0, -1.0, 1.0, 3.0], count), np.repeat(np.arange(count), 4)
    odd = (group % 2).astype(float)
    effects = rng.normal(0.0, 1.0, count)
    y = rng.binomial(1, 1 / (1 + np.exp(2.5 - odd + 0.2 * time - effects[group])))
    data = {"y": y, "odd": odd, "time": time, "group": group}

    def make(solver: str) -> Any:
        formula = "y ~ odd + time + iid(group, prior=gamma_precision(0.5, 0.0164))"
        return es.LatentGaussianModel(formula, data=data, family="bernoulli", fixed_sd=SD, solver=solver)

    field = Field("group_sd", (0.5, 0.0164), group)
    design = np.column_stack([np.ones(len(y)), odd, time])
    return Problem(make, design, (field,), y, np.ones(len(y)), False, 2.0)


def germany() -> Problem:
    """Return cancer of the oral cavity in Germany, with spatial, independent and smooth effects."""
    found = es.data.germany()
    data, edges = found.columns, found.edges
    positions = np.arange(data["x"].min(), data["x"].max() + 1)
    of_both = gamma_precision(1.0, 0.01)

    def make(solver: str, graph: Any = edges, values: Any = positions, prior: Any = of_both) -> Any:
        formula = (
            "Y ~ bym(region, graph=graph, scale_model=False, prior=prior) "
            "+ rw2(x, values=values, scale_model=False, prior=gamma_precision(1, 0.05))"
        )
        return es.LatentGaussianModel(formula, data=data, family="poisson", exposure="E", fixed_sd=SD, solver=solver)

    index = data["region"] - 1
    differences = np.diff(np.eye(len(positions)), 2, axis=0)
    fields = (
        Field("region_sd_structured", (1.0, 0.01), index, laplacian(edges - 1, 544)),
        Field("region_sd_unstructured", (1.0, 0.01), index),
        Field("x_sd", (1.0, 0.05), data["x"] - positions[0], differences.T @ differences),
    )
    return Problem(make, np.ones((544, 1)), fields, data["Y"], data["E"], True, 4.0)


def lattice(side: int, bar: float, seed: int = 1) -> Problem:
    """Return counts on a lattice, simulated: an intercept and an intrinsic autoregression, about one event per cell."""
    rng = np.random.default_rng(seed)
    differences = np.diff(np.eye(side), axis=0)
    values, vectors = np.linalg.eigh(differences.T @ differences)
    sums = values[:, None] + values
    sums[0, 0] = np.inf
    field = vectors @ (rng.standard_normal((side, side)) / np.sqrt(4.0 * sums)) @ vectors.T
    y = rng.poisson(np.exp(field.ravel()))
    path = sparse.diags_array([np.ones(side - 1), np.ones(side - 1)], offsets=[-1, 1])
    one = sparse.eye_array(side)
    neighbours = sparse.csr_array(sparse.kron(path, one) + sparse.kron(one, path))
    data = {"y": y, "cell": np.arange(side**2)}

    def make(solver: str, graph: Any = neighbours) -> Any:
        formula = "y ~ 1 + icar(cell, graph=graph, scale_model=False, prior=gamma_precision(1, 0.01))"
        return es.LatentGaussianModel(formula, data=data, family="poisson", fixed_sd=SD, solver=solver)

    return Problem(make, np.ones((side**2, 1)), (), y, np.ones(side**2), True, bar)


def volatility(term: str, count: int = 2500, seed: int = 7) -> Problem:
    """Return simulated returns whose log variance is an autoregression, with unknown mean, persistence and scale."""
    rng = np.random.default_rng(seed)
    steps, log_variance = rng.normal(0.0, 0.2, count), np.zeros(count)
    log_variance[0] = steps[0] / np.sqrt(1 - 0.97**2)
    for t in range(1, count):
        log_variance[t] = 0.97 * log_variance[t - 1] + steps[t]
    y = np.exp(0.5 * (log_variance - 1.0)) * rng.standard_normal(count)
    priors = {"sd": dist.HalfNormal(1.0), "length": dist.LogNormal(3.0, 1.0)}
    terms = {
        "ar1": AR1("day"),
        "exp": GP("day", kernel=lambda sd, length: quasisep.Exp(length, sigma=sd), prior=priors),
        "matern32": GP("day", kernel=lambda sd, length: quasisep.Matern32(length, sigma=sd), prior=priors),
    }
    data = {"one": np.ones(count), "day": np.arange(count)}

    def make(solver: str) -> Any:
        if term == "latent_gp":
            return SeriesModel(y, priors)
        both = [Fixed(["one"], sd=SD), terms[term]]
        return es.LatentGaussianModel(y, both, data=data, family="stochastic_volatility", solver=solver)

    return Problem(make, np.ones((count, 1)), (), y, np.ones(count), False, 10.0)


class SeriesModel:
    """A `LatentGP` of returns, with the methods of `LatentGaussianModel` and its fits that the benchmark uses."""

    def __init__(self, y: np.ndarray, priors: dict[str, Any]):
        self.y, self.model, self.hyperparameters = y, self, {**priors, "mean": dist.Normal(0.0, SD)}

    def fit(self, **options: Any) -> SeriesModel:
        """Fit, and keep the draws."""
        model = es.gp.LatentGP(
            lambda sd, length: quasisep.Exp(length, sigma=sd), es.likelihoods.StochasticVolatility,
            mean=lambda mean: mean, parameters=self.hyperparameters,
        )  # fmt: skip
        self.tree = model.fit(np.arange(len(self.y)), self.y, **options).tree
        return self

    def summary(self) -> dict[str, Any]:
        """Return no fixed effects."""
        return {"mean": {}}

    def linear_predictor(self) -> Any:
        """Return the log variances."""
        return self.tree["posterior"]["f"]


def tiny() -> Any:
    """Return a small model, whose fit compiles what all models share."""
    rng = np.random.default_rng(0)
    fixed, effects = Fixed(np.ones((30, 1)), names=["one"]), IID(np.repeat(np.arange(10), 3), name="g")
    return es.LatentGaussianModel(rng.poisson(2.0, 30), [fixed, effects], family="poisson")


def laplacian(edges: np.ndarray, size: int) -> np.ndarray:
    """Return the precision matrix of an intrinsic autoregression, for edges between vertices 0 to size - 1."""
    weights = np.zeros((size, size))
    weights[edges[:, 0], edges[:, 1]] = weights[edges[:, 1], edges[:, 0]] = 1.0
    return np.diag(weights.sum(1)) - weights


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "seeds": seeds,
    "epil": epil,
    "scotland_bym": scotland_bym,
    "scotland_bym2": scotland_bym2,
    "tokyo": tokyo,
    "groups": groups,
    "germany": germany,
    "lattice_50": lambda: lattice(50, 6.0),
    "lattice_100": lambda: lattice(100, 25.0),
    "lattice_142": lambda: lattice(142, 60.0),
    "volatility_ar1": lambda: volatility("ar1"),
    "volatility_exp": lambda: volatility("exp"),
    "volatility_matern32": lambda: volatility("matern32"),
    "volatility_latent_gp": lambda: volatility("latent_gp"),
}
"""Functions that load the data of a problem, by name. Data are loaded outside the timings."""

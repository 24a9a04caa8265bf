"""The runs whose bits are recorded: every move of the catalogue on every engine, and a few on larger priors.

Only public names are used here, so that a restructuring of the library does not change this file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpyro.distributions as dist
from jax.tree_util import Partial
from tinygp import kernels
from tinygp.kernels import quasisep

import ellipslice as es
from catalogue import MOVES
from ellipslice.moves import ConstrainedSlice, ControlVariables, EllipticalSlice, Local

# --- problems ---------------------------------------------------------------------------------------------------------

TIMES = np.array([0.0, 0.3, 0.7, 1.0, 1.8, 2.0, 2.9])
COVARIANCE = np.exp(-np.abs(TIMES[:, None] - TIMES))
COUNTS = np.array([1, 0, 2, 3, 1, 0, 4])
DESIGN = np.array([[1.0, 0.0, 0.5, 0.0, 0.0, -1.0, 0.0], [0.0, 2.0, 0.0, 0.0, 1.0, 0.0, 0.3]])


def quadratic(target, f):
    """Return a log-likelihood that takes one latent vector or a batch."""
    return -1.5 * ((f - target) ** 2).sum(axis=-1)


def named(f, b):
    return -2.0 * ((f - b[..., None]) ** 2).sum(axis=-1)


# A prior, and a log-likelihood. A `Partial` is a pytree, so that a function is compiled only once for all its runs.
PROBLEMS: dict[str, tuple[Any, Any]] = {
    # Moves of the catalogue are written for two elements.
    "Dense, 2": (es.Dense([[1.0, 0.4], [0.4, 1.5]], mean=0.3), es.likelihoods.Poisson([2, 0])),
    "Diagonal, 2": (es.Diagonal([1.0, 2.5]), Partial(quadratic, np.array([1.0, -0.4]))),
    "Dense, 7": (es.Dense(COVARIANCE, mean=0.3), es.likelihoods.Poisson(COUNTS)),
    "Markov, 7": (es.Markov(quasisep.Matern32(scale=0.8), TIMES), Partial(quadratic, COUNTS / 3)),
    "box": (es.TruncatedGaussian.box(es.Dense(COVARIANCE), lower=-0.5), Partial(quadratic, COUNTS / 3)),
    "linear predictor": (
        es.Dense(COVARIANCE, mean=0.3),
        es.likelihoods.LinearPredictor(DESIGN, Partial(quadratic, np.array([1.0, -0.4]))),
    ),
    "named latents": (es.Stack({"f": es.Dense(COVARIANCE[:4, :4], 0.3), "b": es.Diagonal(4.0)}), Partial(named)),
}

# Moves for seven elements, with the problems on which they run. Moves of the catalogue run on the first two problems.
LARGER: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "EllipticalSlice, larger": (EllipticalSlice, ("Dense, 7", "Markov, 7", "linear predictor", "named latents")),
    "ConstrainedSlice, in a box": (ConstrainedSlice, ("box",)),
    "Local.contiguous": (lambda: Local.contiguous(3), ("Dense, 7", "Markov, 7")),
    "Local.random": (lambda: Local.random(3, partitions=3), ("Dense, 7", "Markov, 7")),
    "ControlVariables, inputs": (
        lambda: ControlVariables(lambda x, y: np.exp(-np.abs(x[:, None] - y)), TIMES, [0.2, 1.5]),
        ("Dense, 7",),
    ),
    "around a Laplace approximation": (lambda: None, ("Dense, 7", "Markov, 7")),
}

ENGINES: dict[str, dict[str, Any]] = {
    "host": {"engine": "host", "vectorized": False},
    "host, vectorized": {"engine": "host", "vectorized": True},
    "compiled": {"engine": "compiled", "vectorized": False},
    "compiled, look-ahead 4": {"engine": "compiled", "vectorized": False, "look_ahead": 4},
    "batched": {"engine": "batched", "vectorized": False},
}

OPTIONS = {"draws": 64, "warmup": 0, "chains": 2, "seed": 20, "progress": False}

SHORT = ("EllipticalSlice", "Cycle of two", "NealMetropolis", "ReferenceSlice")
"""Moves that the normal test run compares on the compiled engine, too. `make long` compares all of them."""


def cases() -> Iterator[tuple[str, str, str]]:
    """Return every combination of move, problem and engine, allowed or not."""
    both = dict.fromkeys(MOVES, ("Dense, 2", "Diagonal, 2")) | {name: own for name, (_, own) in LARGER.items()}
    for move, problems in both.items():
        for problem in problems:
            for engine in ENGINES:
                yield move, problem, engine


def run(move: str, problem: str, engine: str) -> dict[str, np.ndarray]:
    """Sample, and return the arrays of the result by their names in the record."""
    prior, log_likelihood = PROBLEMS[problem]
    options = OPTIONS | ENGINES[engine]
    if move == "around a Laplace approximation":
        options["reference"] = "laplace"
    else:
        options["move"] = MOVES[move]() if move in MOVES else LARGER[move][0]()
    if problem == "box":
        options["initial"] = np.full(7, 0.2)
    return arrays(es.sample(log_likelihood, prior, **options))


# --- Gaussian processes -----------------------------------------------------------------------------------------------

GP_X = np.linspace(0.0, 3.0, 8)
GP_Y = np.array([1, 0, 2, 3, 5, 4, 1, 2])
GP = es.gp.LatentGP(
    lambda length_scale: kernels.ExpSquared(length_scale),
    es.likelihoods.NegativeBinomial,
    mean=0.2,
    parameters={"length_scale": dist.LogNormal(0.0, 0.5), "dispersion": dist.LogNormal(1.0, 0.5)},
)
SMALL = {"draws": 20, "warmup": 5, "chains": 1, "ensemble_size": 3, "ensemble_refreshes": 2, "random_state": 0}
GP_OPTIONS = {"draws": 20, "warmup": 5, "chains": 2, "seed": 3, "progress": False}


def latent_gp() -> dict[str, np.ndarray]:
    """Fit a model with unknown hyperparameters."""
    return arrays(GP.fit(GP_X, GP_Y, **GP_OPTIONS).tree)


def known_gp() -> dict[str, np.ndarray]:
    """Fit a model without unknown hyperparameters, on the host, with a Python likelihood that JAX cannot trace."""
    model = es.gp.LatentGP(kernels.Matern32(0.9), on_the_host, mean=0.2)
    fit = model.fit(GP_X, GP_Y, **GP_OPTIONS)
    return arrays(fit.tree) | {"prediction": np.asarray(fit.predict([0.5, 1.1]).latent)}


class on_the_host:  # noqa: N801  a likelihood, as `LatentGP` takes one
    def __init__(self, y):
        self.y = np.asarray(y)

    def __call__(self, f):
        f = np.asarray(f, dtype=float)
        return float(np.sum(self.y * f - np.exp(f)))


def regressor() -> dict[str, np.ndarray]:
    fitted = es.gp.EllipticalGPRegressor(**SMALL).fit(GP_X[:, None], GP_Y.astype(float))
    return {"prediction": fitted.predict([[0.5], [1.1]])}


def classifier() -> dict[str, np.ndarray]:
    fitted = es.gp.EllipticalGPClassifier(**SMALL).fit(GP_X[:, None], np.where(GP_Y > 1, "many", "few"))
    return {"prediction": fitted.predict_proba([[0.5], [1.1]])}


OTHERS: dict[str, Callable[[], dict[str, np.ndarray]]] = {
    "LatentGP, unknown hyperparameters": latent_gp,
    "LatentGP, host": known_gp,
    "EllipticalGPRegressor": regressor,
    "EllipticalGPClassifier": classifier,
}

# --- the recorded parts of a result ---------------------------------------------------------------------------------

STATISTICS = {
    "log_likelihood": ("total_log_likelihood", "log_likelihood"),
    "proposals": ("proposals",),
    "evaluations": ("evaluations",),
    "nans": ("nan_evaluations",),
    "stuck": ("search_failed",),
    "angle": ("angle",),
    "factorisations": ("factorisations",),
}
"""Names that statistics have had in results, by their name in the record."""


def arrays(tree: Any) -> dict[str, np.ndarray]:
    """Return draws and statistics by their names in the record: latents in the order of the result, then statistics."""
    found = {f"draws of {name}": values.values for name, values in tree.posterior.data_vars.items()}
    stats = tree.sample_stats
    known = {own: next((name for name in names if name in stats), None) for own, names in STATISTICS.items()}
    if known["factorisations"] is not None:  # the angle of such an update is this number, which is recorded only once
        known["angle"] = None
    return found | {own: stats[name].values for own, name in known.items() if name is not None}


def describe(found: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the record of a run: SHA-256 of its arrays, and the first values as decimals.

    For draws these are the first 8 draws of the first chain, for statistics those of the last chain.
    """
    draws = {name: values for name, values in found.items() if name.startswith("draws")}
    rest = {name: found[name] for name in STATISTICS if name in found}
    predictions = {name: values for name, values in found.items() if name not in draws | rest}
    sha256 = {name: _sha256([values]) for name, values in predictions.items()}
    first = {name: _decimals(values.ravel()[:8]) for name, values in predictions.items()}
    if rest:
        sha256 |= {"draws": _sha256([*draws.values()]), "log_likelihood": _sha256([rest.pop("log_likelihood")])}
        sha256["statistics"] = _sha256([*rest.values()])
        first |= {name: _decimals([np.ravel(draw)[0] for draw in values[0, :8]]) for name, values in draws.items()}
        names = ("log_likelihood", "evaluations", "angle")
        first |= {name: _decimals(found[name][-1, :8]) for name in names if name in found}
    return {"sha256": sha256, "first": first}


def _decimals(values: Any) -> list[Any]:
    numbers = np.asarray(values).tolist()
    return [float(f"{number:.15g}") if isinstance(number, float) else number for number in numbers]


def _sha256(values: list[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for array in values:
        digest.update(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()

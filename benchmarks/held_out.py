"""Predictions of held-out digits, separable classes and counts, scored beside scikit-learn's Gaussian processes.

    python benchmarks/held_out.py --out benchmarks/results/held_out.json
    python benchmarks/held_out.py --tasks separable coal --splits 5

The score is the mean log-probability of held-out data, higher is better; for classes accuracy besides. Each split
trains on some of the data and predicts the rest. scikit-learn's classifier has Laplace's approximation and optimises
amplitude and length scale from two starts. `LatentGP` averages over both, with log-normal priors and the same kernel;
`EllipticalGPClassifier` is as it comes.

Counts are explosions in coal mines in each of 112 years. The rival is scikit-learn's regression of log(count + 1/2),
whose noise it optimises too; its probability of a count k is that between log(k) and log(k + 1), all below for none.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpyro.distributions as dist
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from tinygp import kernels

import ellipslice as es
from ellipslice.machine import machine

SHORT = {"draws": 300, "warmup": 200, "chains": 2, "progress": False}
EUCLID = kernels.distance.L2Distance()


def digits(seed: int) -> tuple[np.ndarray, ...]:
    """Threes and fives: 200 of the paper's to learn from, the 773 of the other half to predict."""
    usps = es.data.usps_3v5()
    some = np.random.default_rng(seed).permutation(len(usps.y_train))[:200]
    return usps.x_train[some], usps.y_train[some], usps.x_test, usps.y_test


def separable(seed: int) -> tuple[np.ndarray, ...]:
    """Two classes on a plane with a gap between them: 60 to learn from, 300 to predict."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, (1000, 2))
    height = x[:, 1] - np.sin(2 * x[:, 0])
    x, y = x[np.abs(height) > 0.3][:360], np.sign(height[np.abs(height) > 0.3])[:360]
    return x[:60], y[:60], x[60:], y[60:]


def coal(seed: int) -> tuple[np.ndarray, ...]:
    """Explosions by year: half of the years to learn from, the others to predict."""
    edges = np.linspace(1851, 1963, 113)
    x, y = (edges[1:] + edges[:-1]) / 2, np.histogram(es.data.coal_mining().years, edges)[0]
    order = np.random.default_rng(seed).permutation(112)
    return x[order[:56]], y[order[:56]], x[order[56:]], y[order[56:]]


def of_labels(probability: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Scores of the probability of +1."""
    right = np.where(y > 0, probability, 1 - probability)
    return {"log_score": float(np.log(right).mean()), "accuracy": float((right > 0.5).mean())}


def laplace(x: np.ndarray, y: np.ndarray, new: np.ndarray, seen: np.ndarray, seed: int) -> dict[str, float]:
    """scikit-learn's classifier."""
    kernel = ConstantKernel(1.0, (1e-3, 1e5)) * RBF(np.sqrt(x.shape[1]), (1e-2, 1e3))
    model = GaussianProcessClassifier(kernel, n_restarts_optimizer=1, random_state=seed).fit(x, y)
    return of_labels(model.predict_proba(new)[:, 1], seen)


def classifier(x: np.ndarray, y: np.ndarray, new: np.ndarray, seen: np.ndarray, seed: int) -> dict[str, float]:
    """Our estimator for scikit-learn, as it comes."""
    model = es.gp.EllipticalGPClassifier(random_state=seed).fit(x, y)
    return of_labels(np.asarray(model.predict_proba(new))[:, 1], seen)


def latent_gp(x: np.ndarray, y: np.ndarray, new: np.ndarray, seen: np.ndarray, seed: int) -> dict[str, float]:
    """`LatentGP` with the kernel that scikit-learn's classifier has here."""
    model = es.gp.LatentGP(
        lambda amplitude, length_scale: amplitude**2 * kernels.ExpSquared(length_scale, distance=EUCLID),
        es.likelihoods.Logistic,
        parameters={"amplitude": dist.LogNormal(1.0, 1.0), "length_scale": dist.LogNormal(np.log(x.shape[1]) / 2, 1.0)},
    )
    fit = model.fit(x, y, seed=seed, **SHORT)
    predicted = fit.predict(new, draws=200, joint=False, seed=seed)
    return of_labels(predicted.expected.mean(("chain", "draw")).values, seen)


def logarithms(x: np.ndarray, y: np.ndarray, new: np.ndarray, seen: np.ndarray, seed: int) -> dict[str, float]:
    """scikit-learn's regression of logarithms of counts."""
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(20.0, (1.0, 1e3)) + WhiteKernel(0.5, (1e-3, 10.0))
    model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1, random_state=seed)
    model.fit(x[:, None], np.log(y + 0.5))
    mean, deviation = model.predict(new[:, None], return_std=True)
    with np.errstate(divide="ignore"):
        low, high = (stats.norm.cdf((np.log(k) - mean) / deviation) for k in (seen, seen + 1.0))
    return {"log_score": float(np.log(high - low).mean())}


def poisson(x: np.ndarray, y: np.ndarray, new: np.ndarray, seen: np.ndarray, seed: int) -> dict[str, float]:
    """`LatentGP` with counts as they are."""
    model = es.gp.LatentGP(
        lambda amplitude, length_scale: amplitude**2 * kernels.ExpSquared(length_scale),
        es.likelihoods.Poisson,
        mean=lambda level: level,
        parameters={
            "amplitude": dist.LogNormal(0.0, 1.0),
            "length_scale": dist.LogNormal(np.log(20.0), 1.0),
            "level": dist.Normal(0.0, 2.0),
        },
    )
    fit = model.fit(x, y, seed=seed, **SHORT)
    return {"log_score": float(fit.log_predictive_density(new, seen, seed=seed).mean())}


CLASSES = {"GaussianProcessClassifier": laplace, "EllipticalGPClassifier": classifier, "LatentGP": latent_gp}
TASKS: dict[str, tuple[Callable[[int], Any], dict[str, Callable[..., Any]]]] = {
    "digits": (digits, {name: score for name, score in CLASSES.items() if name != "LatentGP"}),
    "separable": (separable, CLASSES),
    "coal": (coal, {"GaussianProcessRegressor of logarithms": logarithms, "LatentGP": poisson}),
}


def main() -> None:
    """Score all on every split."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # a scale at the bound of scikit-learn's search
    rows = []
    for task in options.tasks:
        data, contestants = TASKS[task]
        for split in range(options.splits):
            for name, score in contestants.items():
                began = time.perf_counter()
                scores = score(*data(split), split)
                rows.append({"task": task, "split": split, "contestant": name, **scores})
                rows[-1]["seconds"] = time.perf_counter() - began
                print(json.dumps(rows[-1]), flush=True)
                if options.out:
                    options.out.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()

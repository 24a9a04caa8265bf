"""Compare the log predictive density of held-out data with scikit-learn's Gaussian processes.

    python benchmarks/held_out.py --out benchmarks/results/held_out.json
    python benchmarks/held_out.py --tasks separable coal --splits 5

The score is the mean log predictive density of held-out data (higher is better), and for classes also the accuracy.
Each split trains on some of the data and predicts the rest. The classifier of scikit-learn uses the Laplace
approximation and optimises amplitude and length scale from two starts. `LatentGP` averages over both, with log-normal
priors and the same kernel. `EllipticalGPClassifier` has its default settings.

The counts are explosions in coal mines in each of 112 years. They are compared with scikit-learn's regression of
log(count + 1/2), which optimises its noise, too. It predicts a count k with the probability of the interval from log(k)
to log(k + 1), and a count of 0 with that of all values below 0.

Times are CPU seconds of the fit and its predictions, including compilation.
"""

from __future__ import annotations

import argparse
import json
import sys
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
from ellipslice.machine import commit, machine

SHORT = {"draws": 300, "warmup": 200, "chains": 2, "progress": False}
EUCLID = kernels.distance.L2Distance()


def digits(seed: int) -> tuple[np.ndarray, ...]:
    """Return digits 3 and 5: 200 of the paper's training data for the fit, and the 773 test data."""
    usps = es.data.usps_3v5()
    some = np.random.default_rng(seed).permutation(len(usps.y_train))[:200]
    return usps.x_train[some], usps.y_train[some], usps.x_test, usps.y_test


def separable(seed: int) -> tuple[np.ndarray, ...]:
    """Return two classes in a plane with a gap between them: 60 points for the fit, 300 for the test."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, (1000, 2))
    height = x[:, 1] - np.sin(2 * x[:, 0])
    x, y = x[np.abs(height) > 0.3][:360], np.sign(height[np.abs(height) > 0.3])[:360]
    return x[:60], y[:60], x[60:], y[60:]


def coal(seed: int) -> tuple[np.ndarray, ...]:
    """Return explosions per year: half of the years for the fit, the others for the test."""
    edges = np.linspace(1851, 1963, 113)
    x, y = (edges[1:] + edges[:-1]) / 2, np.histogram(es.data.coal_mining().years, edges)[0]
    order = np.random.default_rng(seed).permutation(112)
    return x[order[:56]], y[order[:56]], x[order[56:]], y[order[56:]]


def score_labels(probability: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return scores of predicted probabilities of the label +1."""
    right = np.where(y > 0, probability, 1 - probability)
    return {"log_score": float(np.log(right).mean()), "accuracy": float((right > 0.5).mean())}


def laplace(x: np.ndarray, y: np.ndarray, new: np.ndarray, held_out: np.ndarray, seed: int) -> dict[str, float]:
    """Score scikit-learn's classifier."""
    kernel = ConstantKernel(1.0, (1e-3, 1e5)) * RBF(np.sqrt(x.shape[1]), (1e-2, 1e3))
    model = GaussianProcessClassifier(kernel, n_restarts_optimizer=1, random_state=seed).fit(x, y)
    return score_labels(model.predict_proba(new)[:, 1], held_out)


def classifier(x: np.ndarray, y: np.ndarray, new: np.ndarray, held_out: np.ndarray, seed: int) -> dict[str, float]:
    """Score our estimator for scikit-learn, with its defaults."""
    model = es.gp.EllipticalGPClassifier(random_state=seed).fit(x, y)
    return score_labels(np.asarray(model.predict_proba(new))[:, 1], held_out)


def latent_gp(x: np.ndarray, y: np.ndarray, new: np.ndarray, held_out: np.ndarray, seed: int) -> dict[str, float]:
    """Score `LatentGP` with the kernel of scikit-learn's classifier."""
    model = es.gp.LatentGP(
        lambda amplitude, length_scale: amplitude**2 * kernels.ExpSquared(length_scale, distance=EUCLID),
        es.likelihoods.Logistic,
        parameters={"amplitude": dist.LogNormal(1.0, 1.0), "length_scale": dist.LogNormal(np.log(x.shape[1]) / 2, 1.0)},
    )
    fit = model.fit(x, y, seed=seed, **SHORT)
    predicted = fit.predict(new, draws=200, joint=False, seed=seed)
    return score_labels(predicted.expected.mean(("chain", "draw")).values, held_out)


def logarithms(x: np.ndarray, y: np.ndarray, new: np.ndarray, held_out: np.ndarray, seed: int) -> dict[str, float]:
    """Score scikit-learn's regression of log counts."""
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(20.0, (1.0, 1e3)) + WhiteKernel(0.5, (1e-3, 10.0))
    model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1, random_state=seed)
    model.fit(x[:, None], np.log(y + 0.5))
    mean, sd = model.predict(new[:, None], return_std=True)
    with np.errstate(divide="ignore"):
        low, high = (stats.norm.cdf((np.log(k) - mean) / sd) for k in (held_out, held_out + 1.0))
    return {"log_score": float(np.log(high - low).mean())}


def poisson(x: np.ndarray, y: np.ndarray, new: np.ndarray, held_out: np.ndarray, seed: int) -> dict[str, float]:
    """Score `LatentGP` with a Poisson likelihood."""
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
    return {"log_score": float(fit.log_predictive_density(new, held_out, seed=seed).mean())}


CLASSES = {"GaussianProcessClassifier": laplace, "EllipticalGPClassifier": classifier, "LatentGP": latent_gp}
TASKS: dict[str, tuple[Callable[[int], Any], dict[str, Callable[..., Any]]]] = {
    "digits": (digits, {name: score for name, score in CLASSES.items() if name != "LatentGP"}),
    "separable": (separable, CLASSES),
    "coal": (coal, {"GaussianProcessRegressor of logarithms": logarithms, "LatentGP": poisson}),
}


def main() -> None:
    """Score all models on every split."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter(
        "ignore", ConvergenceWarning
    )  # raised when a hyperparameter reaches a bound of scikit-learn's search
    about = {"machine": machine(), "commit": commit(), "arguments": sys.argv[1:]}
    rows = []
    for task in options.tasks:
        data, models = TASKS[task]
        for split in range(options.splits):
            for name, score in models.items():
                began = time.process_time()
                scores = score(*data(split), split)
                rows.append({"task": task, "split": split, "contestant": name, **scores})
                rows[-1]["cpu_seconds"] = time.process_time() - began
                print(json.dumps(rows[-1]), flush=True)
                if options.out:
                    options.out.write_text(json.dumps({**about, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()

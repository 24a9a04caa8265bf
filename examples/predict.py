"""
Predictions at new points: robust regression
============================================

Regression with outliers, unknown hyperparameters and a gap in the inputs. The predictions include the uncertainty in
the function, the kernel and the noise, so the band is wide inside the gap. The output shows how many held-out
observations lie inside their predictive intervals.

::

    python examples/predict.py        # writes predict.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpyro.distributions as dist
from tinygp import kernels

import ellipslice as es


def main() -> None:
    """Fit, predict the held-out observations, print the results and write the plot."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--draws", type=int, default=1000, help="draws per chain (default: 1000)")
    options.add_argument("--picture", type=Path, default="predict.png")
    given = options.parse_args()

    rng = np.random.default_rng(5)
    x = np.sort(rng.uniform(0, 10, 220))
    y = np.sin(1.3 * x) * x / 4 + 0.25 * rng.standard_t(3, len(x))
    gap = (x > 5.5) & (x < 7)
    held_out = gap | (rng.random(len(x)) < 0.3)

    model = es.gp.LatentGP(
        lambda amplitude, length_scale: amplitude**2 * kernels.Matern52(length_scale),
        es.likelihoods.StudentT,
        parameters={
            "amplitude": dist.LogNormal(0.0, 1.0),
            "length_scale": dist.LogNormal(0.0, 1.0),
            "noise_scale": dist.HalfNormal(1.0),  # an argument of StudentT, like the next one
            "degrees_of_freedom": dist.Uniform(1.5, 30.0),
        },
    )
    fit = model.fit(x[~held_out], y[~held_out], draws=given.draws, seed=1)
    print(es.diagnostics.check_convergence(fit.tree))
    predicted = fit.predict(x[held_out])
    values = predicted.predictive.values.reshape(-1, held_out.sum())
    for inside in (0.5, 0.9):
        low, high = np.quantile(values, [(1 - inside) / 2, (1 + inside) / 2], axis=0)
        share = np.mean((low < y[held_out]) & (y[held_out] < high))
        print(
            f"{100 * share:.0f} % of {held_out.sum()} held-out observations are in the {100 * inside:.0f} % predictive "
            "intervals"
        )
    print(f"mean log predictive density: {fit.log_predictive_density(x[held_out], y[held_out]).mean():.2f}")
    draw(fit, x[held_out], y[held_out], given.picture)


def draw(fit: es.gp.Fit, x: np.ndarray, y: np.ndarray, path: Path) -> None:
    """Plot the 90 % intervals of the expected value and of new observations, with the data and the held-out data."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    new = np.linspace(0, 10, 300)
    predicted = fit.predict(new)
    for name, alpha, label in (
        ("predictive", 0.2, "90 % interval of new observations (predictive)"),
        ("expected", 0.5, "90 % interval of the expected value (expected)"),
    ):
        values = predicted[name].values.reshape(-1, len(new))
        axes.fill_between(
            new, *np.quantile(values, [0.05, 0.95], axis=0), color="#1b6ca8", alpha=alpha, lw=0, label=label
        )
    median = np.median(predicted.expected.values.reshape(-1, len(new)), axis=0)
    axes.plot(new, median, color="#1b6ca8", lw=1.6, label="median of the expected value")
    axes.plot(fit.X, fit.y, ".", color="0.25", ms=5, label="data of the fit")
    axes.plot(x, y, "x", color="#c1440e", ms=5, label="held-out data")
    axes.set(xlabel="input x", ylabel="observation y", xlim=(0, 10))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()

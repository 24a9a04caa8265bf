"""
scikit-learn estimators compared with scikit-learn's Gaussian processes
=======================================================================

The estimators of ellipslice have the interface of scikit-learn. This example compares them with scikit-learn's own
Gaussian processes on handwritten digits and on a curve with outliers. Look at the right panel: with Student-t noise the
outliers hardly affect the curve.

::

    python examples/scikit_learn.py        # writes scikit_learn.png

The estimators do not expose their draws as a result for `check_convergence`, so the example reports errors on held-out
digits and on the true curve instead.
"""

from __future__ import annotations

import argparse

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ellipslice as es


def classify(count: int, draws: int) -> None:
    """Print the log-loss on held-out digits, 3 against 5, by cross-validation in a pipeline."""
    data = es.data.usps_3v5()
    some = np.random.default_rng(0).permutation(len(data.y_train))[:count]
    X, y = data.x_train[some], data.y_train[some]
    print("log-loss on held-out digits")
    for model in (
        GaussianProcessClassifier(1.0 * RBF(10.0)),
        es.gp.EllipticalGPClassifier(draws=draws, random_state=1),
    ):
        loss = -cross_val_score(make_pipeline(StandardScaler(), model), X, y, cv=3, scoring="neg_log_loss")
        print(f"{type(model).__name__:36s}{loss.mean():.3f}")


def curve(draws: int, picture: str | None) -> None:
    """Print the root mean squared error of a curve with 60 measurements, ten of them outliers, and plot the fits."""
    rng = np.random.default_rng(1)
    X, new = rng.uniform(0, 6, (60, 1)), np.linspace(0, 6, 200)[:, None]
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(60)
    y[:10] += rng.uniform(1, 4, 10)
    models = {
        "GaussianProcessRegressor": GaussianProcessRegressor(1.0 * RBF(1.0) + WhiteKernel(), normalize_y=True),
        "EllipticalGPRegressor, gaussian": es.gp.EllipticalGPRegressor(draws=draws, random_state=1),
        "EllipticalGPRegressor, student-t": es.gp.EllipticalGPRegressor(
            likelihood="student-t", draws=draws, random_state=1
        ),
    }
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained", sharey=True)
    print("root mean squared error of a curve with outliers")
    for axis, (name, model) in zip(axes, models.items(), strict=True):
        mean, sd = model.fit(X, y).predict(new, return_std=True)
        if isinstance(model, GaussianProcessRegressor):  # its standard deviation includes the noise of its kernel
            noise = model.kernel_.k2.noise_level * y.var()
            sd = np.sqrt(np.maximum(sd**2 - noise, 0.0))
        error = np.sqrt(np.mean((mean - np.sin(new[:, 0])) ** 2))
        print(f"{name:36s}{error:.3f}")
        axis.fill_between(new[:, 0], mean - 2 * sd, mean + 2 * sd, alpha=0.25, label="± 2 standard deviations")
        axis.plot(new[:, 0], mean, label="mean")
        axis.plot(new[:, 0], np.sin(new[:, 0]), "k--", linewidth=1, label="truth")
        axis.plot(X[:, 0], y, "k.", markersize=4, label="data")
        axis.set(title=name, xlabel="x")
    axes[0].set_ylabel("y")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    if picture is not None:
        figure.savefig(picture, dpi=110)


def main(digits: int = 200, draws: int = 200, picture: str | None = None) -> None:
    """Run both comparisons."""
    classify(digits, draws)
    curve(draws, picture)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--picture", default="scikit_learn.png", help="file for the plot of the curve (default: scikit_learn.png)"
    )
    main(picture=parser.parse_args().picture)

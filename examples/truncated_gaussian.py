"""
Monotone regression with linear inequality constraints
======================================================

A dose-response curve is known to increase and to stay between 0 and 1. Both are linear inequalities A f <= b, and
`TruncatedGaussian` samples a Gaussian process under them. The plot compares the posterior with and without the
constraints, from 14 noisy measurements: with them the band is narrower, and no draw decreases.

::

    python examples/truncated_gaussian.py        # writes truncated_gaussian.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import scipy.sparse

import ellipslice as es

DOSES = 60
NOISE_SCALE = 0.12


def truth(dose: np.ndarray) -> np.ndarray:
    """Return the curve that the data come from, a logistic function."""
    return 0.1 + 0.8 / (1 + np.exp(-(dose - 5) * 0.8))


def measurements() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the doses, the indices of the measured ones, and the measurements."""
    rng = np.random.default_rng(4)
    dose = np.linspace(0, 10, DOSES)
    where = np.sort(rng.choice(DOSES, 14, replace=False))
    return dose, where, truth(dose[where]) + rng.normal(0, NOISE_SCALE, len(where))


def main(draws: int = 2000, picture: str | None = None) -> None:
    """Sample the curve without and with the constraints, print the results and write the plot."""
    dose, where, y = measurements()
    gaussian = es.Dense(0.5**2 * np.exp(-0.5 * ((dose[:, None] - dose) / 2) ** 2), mean=0.5)
    # Rows f[i] - f[i+1] <= 0: the curve does not decrease.
    decreases = scipy.sparse.diags_array(
        [np.ones(DOSES - 1), -np.ones(DOSES - 1)], offsets=[0, 1], shape=(DOSES - 1, DOSES)
    )
    # Rows -f[0] <= 0 and f[-1] <= 1: an increasing curve is then within 0 and 1 everywhere.
    ends = scipy.sparse.csr_array(([-1.0, 1.0], ([0, 1], [0, DOSES - 1])), shape=(2, DOSES))
    A, b = scipy.sparse.vstack([decreases, ends]), np.concatenate([np.zeros(DOSES - 1), [0.0, 1.0]])

    # Only 14 of the 60 doses are measured: the design matrix selects them.
    design = scipy.sparse.csr_array((np.ones(len(where)), (np.arange(len(where)), where)), shape=(len(where), DOSES))
    likelihood = es.likelihoods.LinearPredictor(design, es.likelihoods.Gaussian(y, NOISE_SCALE))
    curves = {}
    for name, prior in {"free": gaussian, "increasing": es.TruncatedGaussian(gaussian, A, b)}.items():
        tree = es.sample(likelihood, prior, draws=draws, warmup=500, thin=50, seed=1)
        f = curves[name] = tree.posterior.f.values.reshape(-1, DOSES)
        decrease = max(0.0, float(-np.diff(f).min()))
        low, high = np.quantile(f, [0.05, 0.95], axis=0)
        inside = np.mean((low <= truth(dose)) & (truth(dose) <= high))
        error = np.sqrt(((f.mean(0) - truth(dose)) ** 2).mean())
        print(
            f"{name}: largest decrease {decrease:.2g}, 90 % band of average width {np.mean(high - low):.3f}, "
            f"which contains the truth at {100 * inside:.0f} % of the doses; error of the mean {error:.3f}; "
            f"{tree.attrs['proposals'] / tree.attrs['updates']:.1f} proposals per update"
        )
        print(f"{'':10s} {str(es.diagnostics.check_convergence(tree)).splitlines()[0]}")
    if picture:
        draw(dose, where, y, curves, Path(picture))
        print(f"wrote {picture}")


def draw(dose: np.ndarray, where: np.ndarray, y: np.ndarray, curves: dict[str, np.ndarray], path: Path) -> None:
    """Plot both posteriors: a 90 % band, some draws, the data and the truth."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(9, 4), layout="constrained")
    titles = {"free": "Gaussian process", "increasing": "Increasing, between 0 and 1 (A f ≤ b)"}
    axes = figure.subplots(1, 2, sharey=True)
    for panel, (name, f) in zip(axes, curves.items(), strict=True):
        low, high = np.quantile(f, [0.05, 0.95], axis=0)
        panel.fill_between(dose, low, high, color="#9ecae1", alpha=0.6, linewidth=0, label="90 % interval")
        for number, curve in enumerate(f[:: len(f) // 12][:12]):
            label = None if number else "posterior draws"
            panel.plot(dose, curve, color="#08519c", linewidth=0.6, alpha=0.6, label=label)
        panel.plot(dose, truth(dose), color="#d94801", linewidth=1.6, label="truth")
        panel.plot(dose[where], y, "o", color="black", markersize=4, label="data")
        panel.set(title=titles[name], xlabel="dose")
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("response")
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--picture", default="truncated_gaussian.png")
    main(**vars(parser.parse_args()))

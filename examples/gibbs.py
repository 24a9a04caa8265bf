"""
A Gibbs loop of your own
========================

A Gibbs sampler in plain NumPy, with `es.step` for its latent function.

::

    python examples/gibbs.py        # writes gibbs.png

Counts are Poisson with rate r exp(f): f is a function with a Gaussian prior, r an unknown level with a gamma prior.
Given r, f has a Gaussian prior and any likelihood, so `es.step` updates it. Given f, r is gamma again, and drawn
directly. That is the whole sampler: a loop of your own, with your own arrays, to which other updates can be added.

Two things to know. nu is a fresh draw of f's prior as it is now: if its covariance had parameters, of the present ones.
And `es.step` also returns the log-likelihood of the new f. Handing it to the next update (`log_likelihood_f=`) saves an
evaluation, but only if nothing has changed the likelihood since. Here r has, so it is left out.
"""

from __future__ import annotations

import numpy as np

import ellipslice as es

SHAPE, RATE = 2.0, 0.5
"""Of the gamma prior of r, whose mean is 4."""


def gibbs(
    y: np.ndarray, covariance: np.ndarray, updates: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float]:
    """Draws of f, draws of r, and how many evaluations an update took."""
    factor = np.linalg.cholesky(covariance)
    f, r = np.zeros(len(y)), SHAPE / RATE
    functions, levels, evaluations = np.empty((updates, len(y))), np.empty(updates), 0
    for i in range(updates):
        nu = factor @ rng.standard_normal(len(y))
        f, _, info = es.step(f, nu, lambda f, r=r: y @ f - r * np.exp(f).sum(), rng=rng)
        r = rng.gamma(SHAPE + y.sum(), 1 / (RATE + np.exp(f).sum()))
        functions[i], levels[i] = f, r
        evaluations += info.evaluations
    return functions, levels, evaluations / updates


def main(updates: int = 20_000, picture: str | None = None) -> None:
    """Print what was found, and draw it."""
    rng = np.random.default_rng(1)
    x = np.linspace(0, 10, 50)
    covariance = 0.2 * np.exp(-2 * (x[:, None] - x) ** 2) + 1e-6 * np.eye(50)
    truth = np.linalg.cholesky(covariance) @ rng.standard_normal(50)
    y = rng.poisson(5 * np.exp(truth))

    functions, levels, evaluations = gibbs(y, covariance, updates, rng)
    functions, levels = functions[updates // 10 :], levels[updates // 10 :]
    low, high = np.quantile(functions, [0.05, 0.95], axis=0)
    print(f"{updates:,} updates, {evaluations:.1f} evaluations each")
    print(f"r: {levels.mean():.2f} +- {levels.std():.2f}, where the truth is 5")
    print(
        f"the truth is between the 5% and 95% quantiles of f at {np.mean((low < truth) & (truth < high)):.0%} of places"
    )
    print(
        f"effective sample size of r: {float(es.diagnostics.effective_sample_size(levels)):,.0f} of {len(levels):,} "
        "draws"
    )
    if picture:
        draw(x, y, truth, (low, functions.mean(axis=0), high), levels, picture)


def draw(
    x: np.ndarray, y: np.ndarray, truth: np.ndarray, band: tuple[np.ndarray, ...], levels: np.ndarray, path: str
) -> None:
    """The function beside the truth, and the level."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained", width_ratios=[1.8, 1])
    low, middle, high = band
    left.fill_between(x, low, high, color="#56B4E9", alpha=0.5, label="90 % of the draws")
    left.plot(x, middle, color="#0072B2")
    left.plot(x, truth, "--", color="black", label="truth")
    left.plot(x, np.log((y + 0.5) / 5), ".", color="#5f6670", label="log of counts over 5")
    left.set(xlabel="x", ylabel="f")
    left.legend(frameon=False)
    right.hist(levels, 60, density=True, color="#56B4E9")
    right.axvline(5, color="black", linestyle="--")
    right.set(xlabel="r", yticks=[])
    for panel in (left, right):
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(picture="gibbs.png")

"""
A Gibbs sampler in NumPy with es.step
=====================================

A hand-written Gibbs sampler that alternates between a latent function and a scalar. `es.step` makes one elliptical
slice update of the function inside your own loop. The right panel shows the posterior of the scalar, whose true value
is 5.

::

    python examples/gibbs.py        # writes gibbs.png

Counts are Poisson with rate r exp(f). The function f has a Gaussian prior, and r a gamma prior. Given r, f has a
Gaussian prior and a likelihood, so `es.step` updates it. Given f, r has a gamma distribution, from which it is drawn
directly. Other updates can be added to the loop. The example runs one chain, so it prints an effective sample size but
no R-hat.

Two points matter. First, nu must be a new draw from the current prior of f: if its covariance had hyperparameters, use
their current values. Second, `es.step` also returns the log-likelihood of the new f. Passing it to the next update
(`log_likelihood_f=`) saves an evaluation, but only if the likelihood has not changed. Here r has changed, so it is
omitted.
"""

from __future__ import annotations

import numpy as np

import ellipslice as es

SHAPE, RATE = 2.0, 0.5
"""Shape and rate of the gamma prior of r. Its mean is 4."""


def gibbs(
    y: np.ndarray, covariance: np.ndarray, updates: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return draws of f, draws of r, and the evaluations per update."""
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
    """Simulate counts, run the sampler, print the results and write the plot."""
    rng = np.random.default_rng(1)
    x = np.linspace(0, 10, 50)
    covariance = 0.2 * np.exp(-2 * (x[:, None] - x) ** 2) + 1e-6 * np.eye(50)
    truth = np.linalg.cholesky(covariance) @ rng.standard_normal(50)
    y = rng.poisson(5 * np.exp(truth))

    functions, levels, evaluations = gibbs(y, covariance, updates, rng)
    functions, levels = functions[updates // 10 :], levels[updates // 10 :]
    low, high = np.quantile(functions, [0.05, 0.95], axis=0)
    print(f"{updates:,} updates, {evaluations:.1f} evaluations per update")
    print(f"r: {levels.mean():.2f} ± {levels.std():.2f} (posterior mean and standard deviation; truth: 5)")
    print(f"the true f is inside its 90 % credible interval at {np.mean((low < truth) & (truth < high)):.0%} of x")
    print(
        f"effective sample size of r: {float(es.diagnostics.effective_sample_size(levels)):,.0f} of {len(levels):,} "
        "draws"
    )
    if picture:
        draw(x, y, truth, (low, functions.mean(axis=0), high), levels, picture)


def draw(
    x: np.ndarray, y: np.ndarray, truth: np.ndarray, band: tuple[np.ndarray, ...], levels: np.ndarray, path: str
) -> None:
    """Plot the function with its credible band, and the histogram of r."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained", width_ratios=[1.8, 1])
    low, middle, high = band
    left.fill_between(x, low, high, color="#56B4E9", alpha=0.5, label="90 % credible band")
    left.plot(x, middle, color="#0072B2")
    left.plot(x, truth, "--", color="black", label="truth")
    left.plot(x, np.log((y + 0.5) / 5), ".", color="#5f6670", label="log(count / 5)")
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

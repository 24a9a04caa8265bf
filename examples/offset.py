"""
Unknown intercept: separate latent or part of the covariance
============================================================

A log rate f + m consists of a smooth function f and an unknown intercept m with prior N(0, sigma_m²). If the variance
of m is added to the covariance of f, chains mix slowly; as a separate latent with its own update it mixes well (Section
2.5 of the paper). The plot shows the effective sample size for three parametrisations of the same posterior.

::

    python examples/offset.py        # writes offset.png

The parametrisations are:

- in the covariance: sigma_m² is added to every element of the covariance of f, so that f contains m;
- joint update: m is a separate latent, and f and m are updated on one ellipse;
- separate updates: m is a separate latent, and f and m are updated in turn, given the other: `Local("names")`.

The first mixes slowly: a draw nu is nearly constant, which the data rule out, so every bracket shrinks to a small angle
and the shape of f hardly changes. The table has the smaller effective sample size of two quantities (the mean of the
log rate, and its shape at one point), per 1,000 updates and, in brackets, per 1,000 proposals. An update with
separate updates takes two searches. The first two parametrisations do not converge for large sigma_m, which is the
point of the comparison.
"""

from __future__ import annotations

import arviz_stats
import numpy as np

import ellipslice as es

UPDATES = 20_000


def effective_sample_size(tree: object, log_rate: np.ndarray) -> tuple[float, float]:
    """Return the smaller effective sample size of level and shape, per 1,000 updates and per 1,000 proposals.

    The log rates have shape (chains, draws, N).
    """
    level = log_rate.mean(axis=-1)
    shape = log_rate[..., 0] - log_rate[..., log_rate.shape[-1] // 2]
    size = min(float(arviz_stats.ess(values)) for values in (level, shape))
    attrs = tree.attrs  # type: ignore[attr-defined]
    return 1000 * size / attrs["updates"], 1000 * size / attrs["proposals"]


def main(picture: str | None = None) -> None:
    """Sample with each sigma_m and parametrisation, print a row for each sigma_m and write the plot."""
    rng = np.random.default_rng(1)
    x = np.linspace(0, 1, 100)
    covariance = 0.25 * np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.2**2)
    y = rng.poisson(np.exp(2.0 + np.asarray(es.Dense(covariance).draw_zero_mean(rng, 1))[0]))
    likelihood = es.likelihoods.Poisson(y)
    options = {"draws": UPDATES, "warmup": 2000, "chains": 4, "seed": 1, "progress": False}
    ellipses = es.moves.EllipticalSlice()  # without it, `sample` would choose a reference, which mixes well everywhere

    print("effective sample size per 1,000 updates (per 1,000 proposals)")
    print(f"{'sigma_m':>8} {'in the covariance':>22} {'joint update':>22} {'separate updates':>22} {'ratio':>12}")
    found = {}
    for sigma_m in (1.0, 3.0, 10.0, 100.0):
        inside = es.sample(likelihood, es.Dense(covariance + sigma_m**2), move=ellipses, **options)
        separate = es.Stack({"f": es.Dense(covariance), "m": es.Diagonal(sigma_m**2)})
        joint = es.sample(lambda f, m: likelihood(f + m), separate, move=ellipses, **options)
        in_turn = es.sample(lambda f, m: likelihood(f + m), separate, move=es.moves.Local("names"), **options)
        sizes = [effective_sample_size(inside, inside.posterior.f.values)]
        for tree in (joint, in_turn):
            sizes.append(effective_sample_size(tree, tree.posterior.f.values + tree.posterior.m.values[..., None]))
        cells = " ".join(f"{f'{updates:.3g} ({proposals:.2g})':>22}" for updates, proposals in sizes)
        ratios = sizes[2][0] / sizes[0][0], sizes[2][1] / sizes[0][1]
        print(f"{sigma_m:>8g} {cells} {f'{ratios[0]:.3g} ({ratios[1]:.2g})':>12}")
        found[sigma_m] = [per_proposals for _, per_proposals in sizes]
    if picture:
        draw(found, picture)


def draw(found: dict[float, list[float]], path: str) -> None:
    """Plot the effective sample size per 1,000 proposals against sigma_m."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    names = ("in the covariance", "joint update", "separate updates")
    for name, sizes, style in zip(names, zip(*found.values(), strict=True), ("o-", "s--", "^-"), strict=True):
        axes.loglog(list(found), sizes, style, label=name)
    axes.set(xlabel="prior standard deviation of the intercept", ylabel="effective sample size per 1,000 proposals")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(picture="offset.png")

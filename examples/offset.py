"""
An unknown constant beside a function
=====================================

An unknown constant beside f: added to the covariance it ruins the sampler, as a variable of its own it does not.

::

    python examples/offset.py        # writes offset.png

Section 2.5 of the paper. Counts have the log-rate f + m, with f a smooth function and m an unknown constant, of which
the prior says only that it is N(0, sigma_m^2). Three ways to sample the same posterior:

- sigma_m^2 is added to every element of f's covariance, so that f itself is f + m;
- m is a latent beside f, and both move together along one ellipse;
- m is a latent beside f, and each moves by itself, given the other: `Local("names")`.

The first can hardly move: a draw nu is nearly a constant, which the data refuse, so every bracket shrinks to a small
angle, and f keeps its shape. What is printed is the effective sample size of the quantities both have (the log-rate at
its mean, and its shape at one place), the worse of the two, for each 1,000 updates and for each 1,000 proposals: an
update of the third way takes two searches.
"""

from __future__ import annotations

import arviz_stats
import numpy as np

import ellipslice as es

UPDATES = 20_000


def effective_sample_size(tree: object, log_rate: np.ndarray) -> tuple[float, float]:
    """The worse of two, for each 1,000 updates and 1,000 proposals, from log-rates (chain, draw, N)."""
    level = log_rate.mean(axis=-1)
    shape = log_rate[..., 0] - log_rate[..., log_rate.shape[-1] // 2]
    size = min(float(arviz_stats.ess(values)) for values in (level, shape))
    attrs = tree.attrs  # type: ignore[attr-defined]
    return 1000 * size / attrs["updates"], 1000 * size / attrs["proposals"]


def main(picture: str | None = None) -> None:
    """Print a row for each sigma_m, and draw them."""
    rng = np.random.default_rng(1)
    x = np.linspace(0, 1, 100)
    covariance = 0.25 * np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.2**2)
    y = rng.poisson(np.exp(2.0 + np.asarray(es.Dense(covariance).draw_zero_mean(rng, 1))[0]))
    likelihood = es.likelihoods.Poisson(y)
    options = {"draws": UPDATES, "warmup": 2000, "chains": 4, "seed": 1, "progress": False}

    print("effective sample size for 1,000 updates (for 1,000 proposals)")
    print(
        f"{'sigma_m':>8} {'in the covariance':>22} {'beside f, together':>22} {'beside f, in turn':>22} {'ratio':>12}"
    )
    found = {}
    for sigma_m in (1.0, 3.0, 10.0, 100.0):
        inside = es.sample(likelihood, es.Dense(covariance + sigma_m**2), **options)
        beside = es.Stack({"f": es.Dense(covariance), "m": es.Diagonal(sigma_m**2)})
        together = es.sample(lambda f, m: likelihood(f + m), beside, **options)
        in_turn = es.sample(lambda f, m: likelihood(f + m), beside, move=es.moves.Local("names"), **options)
        sizes = [effective_sample_size(inside, inside.posterior.f.values)]
        for tree in (together, in_turn):
            sizes.append(effective_sample_size(tree, tree.posterior.f.values + tree.posterior.m.values[..., None]))
        shown = " ".join(f"{f'{updates:.3g} ({proposals:.2g})':>22}" for updates, proposals in sizes)
        ratios = sizes[2][0] / sizes[0][0], sizes[2][1] / sizes[0][1]
        print(f"{sigma_m:>8g} {shown} {f'{ratios[0]:.3g} ({ratios[1]:.2g})':>12}")
        found[sigma_m] = [of_proposals for _, of_proposals in sizes]
    if picture:
        draw(found, picture)


def draw(found: dict[float, list[float]], path: str) -> None:
    """Effective sample size for 1,000 proposals against sigma_m, each way."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    ways = ("in the covariance", "beside f, together", "beside f, in turn")
    for name, sizes, style in zip(ways, zip(*found.values(), strict=True), ("o-", "s--", "^-"), strict=True):
        axes.loglog(list(found), sizes, style, label=name)
    axes.set(xlabel="deviation of the constant under the prior", ylabel="effective draws for 1,000 proposals")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(picture="offset.png")

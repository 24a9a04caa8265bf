"""
Informative data: sampling around a reference Gaussian
======================================================

With many precise observations plain elliptical slice sampling mixes slowly. Sampling around a reference Gaussian, a
Gaussian approximation of the posterior, mixes much faster. Compare the trace plots: the plain chain hardly changes in
1,000 updates.

::

    python examples/strong_likelihood.py        # writes strong_likelihood.png

A smooth function is observed at 200 points with heavy-tailed noise of scale 0.03, a thirtieth of the prior standard
deviation. The same posterior is sampled in three parametrisations: plain, around a Gaussian from expectation
propagation (`reference="auto"`, the default for this likelihood), and around one from a pilot run
(`reference="pilot"`), which works for any likelihood.
The table has the effective sample size of the log-likelihood and of the worst element of f, per 1,000 updates. Only the
run with `reference="auto"` converges. The plain run mixes about 500 times more slowly, and a pilot run finds a poorer
Gaussian for these 200 elements.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import ellipslice as es
from ellipslice.diagnostics import effective_sample_size

OPTIONS = {
    "plain": {"move": es.moves.EllipticalSlice()},
    'reference="auto"': {"reference": "auto"},
    'reference="pilot"': {"reference": "pilot"},
}


def main() -> None:
    """Sample in each parametrisation, print a row for each and write the plot."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--draws", type=int, default=5_000, help="draws per chain (default: 5000)")
    options.add_argument("--picture", type=Path, default="strong_likelihood.png")
    given = options.parse_args()

    rng = np.random.default_rng(4)
    x = np.sort(rng.random(200))
    prior = es.Dense(np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.1**2))
    y = prior.simulate(rng) + 0.03 * rng.standard_t(4, 200)
    likelihood = es.likelihoods.StudentT(y, noise_scale=0.03, degrees_of_freedom=4.0)

    trees = {}
    print(f"{'':20} {'log-likelihood':>15} {'worst element':>14} {'proposals':>12}   first accepted   converged")
    for name, method in OPTIONS.items():
        tree = trees[name] = es.sample(likelihood, prior, **method, draws=given.draws, seed=1, progress=False)
        f, total = tree.posterior.f.values, tree.sample_stats.total_log_likelihood.values
        worst = min(float(effective_sample_size(f[..., i])) for i in range(0, 200, 10))
        accepted = f"{100 * tree.attrs['first_proposal_acceptance_rate']:.0f} %" if "reference" in method else ""
        print(
            f"{name:20} {1000 * effective_sample_size(total) / total.size:15.1f} {1000 * worst / total.size:14.1f}"
            f" {tree.attrs['proposals'] / tree.attrs['updates']:12.2f}   {accepted:>14}   "
            f"{es.diagnostics.check_convergence(tree).converged}"
        )
    draw(x, y, trees, given.picture)


def draw(x: np.ndarray, y: np.ndarray, trees: dict[str, object], path: Path) -> None:
    """Plot the trace of one element of f in each run, and the posterior."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(11, 6.5), layout="constrained")
    middle, updates = len(x) // 2, 1000
    values = {name: tree.posterior.f.values for name, tree in trees.items()}  # type: ignore[attr-defined]
    low, high = np.quantile(values['reference="auto"'][..., middle], [0.0005, 0.9995])
    for panel, (name, f) in zip(axes.flat[:3], values.items(), strict=True):
        panel.plot(f[0, :updates, middle], color="#0072B2", linewidth=0.7)
        panel.set(title=f"{name}, {updates:,} updates", ylim=(low - 0.01, high + 0.01), xlabel="update")
        panel.set_ylabel(f"f[{middle}]")
    last, f = axes.flat[3], values['reference="auto"'].reshape(-1, len(x))
    part = (x > 0.4) & (x < 0.6)  # the band is too narrow to be seen on the whole range
    last.plot(x[part], y[part], ".", color="#5f6670", markersize=5, label="observations")
    band = np.quantile(f[:, part], [0.05, 0.95], axis=0)
    last.fill_between(x[part], *band, color="#56B4E9", alpha=0.7, label="90 % interval of f")
    last.set(title="Posterior, a fifth of the range", xlabel="x", ylabel="f and observations")
    figure.legend(*last.get_legend_handles_labels(), loc="outside lower right", ncols=2, frameon=False)
    for panel in axes.flat:
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()

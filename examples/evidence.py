"""
Model comparison: marginal likelihoods of kernels and length scales
===================================================================

Which prior predicts the coal-mining data best: a constant rate, or a rate that changes at some speed and with some
smoothness? Each model is a prior for the log rate of the 191 explosions in 811 bins of 50 days, and its log marginal
likelihood log Z is estimated by sequential Monte Carlo. Look at the last column and the left panel: a constant rate is
far worse, and length scales of about 20 years are best.

::

    python examples/evidence.py        # writes evidence.png
    python examples/evidence.py --particles 1000 --scales 2.5 5 10 20 40 80        # more models, smaller errors

The table has log Z with its standard error, the approximation by expectation propagation (EP), whether the two
estimates of the run agree (sequential Monte Carlo and annealed importance sampling), and the Bayes factor of the best
model against each.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import ellipslice as es

KERNELS = {
    "smooth": lambda gap: np.exp(-0.5 * gap**2),
    "rough": lambda gap: (1 + math.sqrt(3) * gap) * np.exp(-math.sqrt(3) * gap),
}
"""Squared-exponential and Matérn 3/2 kernels, as functions of distances in units of the length scale."""


def main(scales: Sequence[float], particles: int, picture: str | None = None) -> None:
    """Estimate log Z of each model, print a row per model and write the plot."""
    coal = es.data.coal_mining()
    years, likelihood = coal.bin_years, es.likelihoods.Poisson(coal.counts, math.log(191 / 811))
    models = {("constant", math.nan): es.LowRank(np.ones((len(years), 1)))}
    for name, kernel in KERNELS.items():
        for scale in scales:
            models[name, scale] = es.Dense(kernel(np.abs(years[:, None] - years) / scale))

    found = {}
    print(f"{'log rate':10} {'scale, years':>12} {'log Z':>9} {'error':>7} {'EP':>9} {'agree':>7}   Bayes factor")
    for model, prior in models.items():
        found[model] = es.evidence(likelihood, prior, particles=particles, seed=1)
    best = max(found, key=lambda model: found[model].log_z)
    for (name, scale), result in found.items():
        approximate = es.approximate_evidence(likelihood, models[name, scale])
        factor = math.exp(min(700.0, found[best].log_z - result.log_z))
        print(
            f"{name:10} {'' if math.isnan(scale) else f'{scale:g}':>12} {result.log_z:9.3f} "
            f"{result.standard_error:7.3f} {approximate:9.3f} {result.estimates_agree!s:>7}   {factor:.3g}"
        )
    if picture:
        draw(found, best, coal, Path(picture))


def draw(found: dict, best: tuple[str, float], coal: es.data.CoalMining, path: Path) -> None:
    """Plot log Z of each model, and the rate of explosions under the best model."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for (name, label), colour in zip(
        {"smooth": "smooth (squared-exponential)", "rough": "rough (Matérn 3/2)"}.items(),
        ("#0072B2", "#D55E00"),
        strict=True,
    ):
        own = {scale: result for (kind, scale), result in found.items() if kind == name}
        errors = [2 * result.standard_error for result in own.values()]
        values = [result.log_z for result in own.values()]
        left.errorbar(list(own), values, errors, marker="o", markersize=4, capsize=3, color=colour, label=label)
    constant = next(result.log_z for (kind, _), result in found.items() if kind == "constant")
    left.annotate(f"constant rate: {constant:.1f} (not shown)", (0.97, 0.03), xycoords="axes fraction", ha="right")
    left.set(
        xscale="log", xlabel="length scale, years", ylabel="log Z", title="log marginal likelihood ± 2 standard errors"
    )
    ticks = sorted({scale for _, scale in found if not math.isnan(scale)})
    left.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    left.minorticks_off()
    left.legend(frameon=False, loc="best")

    per_year = np.exp(found[best].draws) * 191 / 811 * es.data.DAYS_PER_YEAR / es.data.BIN_WIDTH
    right.fill_between(
        coal.bin_years,
        *np.quantile(per_year, [0.05, 0.95], axis=0),
        color="#56B4E9",
        alpha=0.5,
        label="90 % credible band",
    )
    right.plot(coal.bin_years, np.median(per_year, axis=0), color="#0072B2")
    right.plot(coal.years, np.zeros(len(coal.years)), "|", color="#5f6670", markersize=8, label="explosions")
    right.set(
        xlabel="year",
        ylabel="explosions per year",
        title=f"best model: {best[0]}, {best[1]:g} years",
        ylim=(0, None),
    )
    right.legend(frameon=False)
    for panel in (left, right):
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--particles", type=int, default=200, help="number of particles (default: 200)")
    options.add_argument(
        "--scales", type=float, nargs="+", default=[5, 20, 80], help="length scales in years (default: 5 20 80)"
    )
    options.add_argument("--picture", default="evidence.png")
    given = options.parse_args()
    main(given.scales, given.particles, given.picture)

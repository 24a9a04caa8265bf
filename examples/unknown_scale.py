"""
Unknown amplitude and length scale of a Cox process
===================================================

How fast does the rate of coal-mining explosions change? The rate is the exponential of a Gaussian process, as in the
paper, but its amplitude and length scale are unknown and are sampled, too. The right panel shows their joint posterior:
larger amplitudes go with longer length scales.

::

    python examples/unknown_scale.py        # writes unknown_scale.png

The output has the posterior of both hyperparameters, the convergence report, and the parametrisations that the pilot
runs compared.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpyro.distributions as dist
from arviz_stats.base import array_stats
from tinygp import kernels

import ellipslice as es


def main() -> None:
    """Fit, print the results and write the plot."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--draws", type=int, default=2000, help="draws per chain (default: 2000)")
    options.add_argument("--cells", type=int, default=112, help="number of cells (default: 112)")
    options.add_argument("--picture", type=Path, default="unknown_scale.png")
    given = options.parse_args()

    coal = es.data.coal_mining()
    process = es.gp.CoxProcess(
        lambda amplitude, length_scale: amplitude**2 * kernels.ExpSquared(length_scale),
        window=(1851, 1963),
        cells=given.cells,
        parameters={"amplitude": dist.LogNormal(0.0, 1.0), "length_scale": dist.LogNormal(np.log(20.0), 1.0)},
    )
    fit = process.fit(coal.years, draws=given.draws, seed=1)

    for name in ("amplitude", "length_scale"):
        values = fit.tree["posterior"][name].values
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
        size = float(array_stats.ess(values, chain_axis=0, draw_axis=1))
        print(
            f"{name:12} median {middle:5.2f}, 90 % interval {low:.2f} to {high:.2f}, effective sample size "
            f"{size:,.0f} of {values.size:,} draws"
        )
    print(es.diagnostics.check_convergence(fit.tree))
    rates = ", ".join(f"{name} {rate:.2f}" for name, rate in fit.parameter_moves.items())
    print(f"parametrisations, by effective samples per work in pilot runs relative to the best: {rates}")
    draw(fit, given.picture)


def draw(fit: es.gp.Fit, path: Path) -> None:
    """Plot the rate, and the draws of its two hyperparameters."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", width_ratios=[1.6, 1])
    fit.plot(left)
    left.set(xlabel="year", ylabel="explosions per year", title="Rate of explosions")
    left.get_legend().remove()
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=4, frameon=False, fontsize=9)
    posterior = fit.tree["posterior"]
    right.loglog(posterior["length_scale"].values.ravel(), posterior["amplitude"].values.ravel(), ".", ms=2, alpha=0.4)
    right.set(xlabel="length scale, years", ylabel="amplitude", title="Posterior draws of the hyperparameters")
    right.set_xticks([5, 10, 20, 40, 80], ["5", "10", "20", "40", "80"])
    right.set_yticks([0.25, 0.5, 1, 2, 4], ["0.25", "0.5", "1", "2", "4"])
    right.minorticks_off()
    right.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()

"""
Unknown amplitude and length scale
==================================

How quickly does the rate of explosions change? Coal mining with unknown amplitude and length scale.

::

    python examples/unknown_scale.py        # writes unknown_scale.png

The rate is the exponential of a Gaussian process, as in the paper, but its amplitude and length scale are not known.
What is printed is what the data say about them, and how they were moved.
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
    """Fit, print, and draw the picture."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--draws", type=int, default=2000)
    options.add_argument("--cells", type=int, default=112)
    options.add_argument("--picture", type=Path, default="unknown_scale.png")
    asked = options.parse_args()

    coal = es.data.coal_mining()
    process = es.gp.CoxProcess(
        lambda amplitude, length_scale: amplitude**2 * kernels.ExpSquared(length_scale),
        window=(1851, 1963),
        cells=asked.cells,
        parameters={"amplitude": dist.LogNormal(0.0, 1.0), "length_scale": dist.LogNormal(np.log(20.0), 1.0)},
    )
    fit = process.fit(coal.years, draws=asked.draws, seed=1)

    for name in ("amplitude", "length_scale"):
        values = fit.tree["posterior"][name].values
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
        size = float(array_stats.ess(values, chain_axis=0, draw_axis=1))
        print(
            f"{name:9} {middle:5.2f}  (90% between {low:.2f} and {high:.2f}); {values.size:,} draws worth {size:,.0f}"
        )
    said = ", ".join(f"{way} {rate:.2f}" for way, rate in fit.parameter_moves.items())
    print(f"effective draws for the same work in pilot runs, of the best: {said}")
    draw(fit, asked.picture)


def draw(fit: es.gp.Fit, path: Path) -> None:
    """The rate, and what is known about its two parameters."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", width_ratios=[1.6, 1])
    fit.plot(left)
    left.set(xlabel="year", ylabel="explosions per year")
    posterior = fit.tree["posterior"]
    right.loglog(posterior["length_scale"].values.ravel(), posterior["amplitude"].values.ravel(), ".", ms=2, alpha=0.4)
    right.set(xlabel="length scale in years", ylabel="amplitude", title="what is known about the parameters")
    right.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()

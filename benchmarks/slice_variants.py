"""Compare the variants of Section 2.4 of the paper by effective samples per evaluation.

    python benchmarks/slice_variants.py --out benchmarks/results/slice_variants.json

The problems are those of the paper's Figure 6. The methods are Figure 2 (`EllipticalSlice`) with other brackets, and
Figure 1 (`AuxiliaryEllipse`) with several concentrations of the angle.

The number of effective samples is the smaller of ArviZ's bulk estimates for the log-likelihood and for the worst
element of f. An evaluation is a proposal: those that tangent planes reject without an evaluation are counted, too.
Numbers are medians over the seeds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
from arviz_stats.base import array_stats  # pyright: ignore[reportPrivateImportUsage]

import ellipslice as es
from ellipslice.apps.paper import problem
from ellipslice.machine import commit, machine
from ellipslice.moves import AuxiliaryEllipse, EllipticalSlice

METHODS = {
    "Figure 2": EllipticalSlice(),
    "halve": EllipticalSlice(shrinking="halve"),
    "other_half": EllipticalSlice(shrinking="other_half"),
    "bracket 1": EllipticalSlice(bracket_width=1.0),
    "bracket 1, other_half": EllipticalSlice(bracket_width=1.0, shrinking="other_half"),
    **{f"Figure 1, concentration {c}": AuxiliaryEllipse(c) for c in (0.0, 0.6, 0.9, 0.97)},
}
UPDATES = {"R01": 60_000, "R10": 300_000, "Mine": 50_000}
"""Updates per chain, of which 2,500 are kept as draws."""

DRAWS, CHAINS = 2500, 4


def main() -> None:
    """Print a row for each problem and method, and write all measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="Number of seeds.")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    about = {"command": " ".join(["python", *sys.argv]), "commit": commit(), "machine": machine()}
    rows: list[dict[str, Any]] = []
    for name in UPDATES:
        for method in METHODS:
            runs = [measure(name, method, seed) for seed in range(1, given.seeds + 1)]
            plain = next((row for row in rows if (row["problem"], row["method"]) == (name, "Figure 2")), None)
            rows.append({"problem": name, "method": method, **medians(runs), "runs": runs})
            rows[-1]["ratio_to_figure_2"] = (
                rows[-1]["per_1000_evaluations"] / (plain or rows[-1])["per_1000_evaluations"]
            )
            print(line(rows[-1]), flush=True)
    if given.out:
        given.out.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n", encoding="utf8")


def measure(name: str, method: str, seed: int) -> dict[str, float]:
    """Return effective sample sizes, R-hat and evaluations of one run."""
    given, updates = problem(name), UPDATES[name]
    tree = es.sample(
        given.likelihood, es.Dense(given.covariance), move=METHODS[method], draws=DRAWS, thin=updates // DRAWS,
        warmup=updates // 10, chains=CHAINS, seed=seed, progress=False,
    )  # fmt: skip
    f, log_likelihood = tree.posterior.f.to_numpy(), tree.sample_stats.total_log_likelihood.to_numpy()
    quantities = np.concatenate([log_likelihood[..., None], f], axis=-1)
    sizes = np.asarray(array_stats.ess(quantities, chain_axis=0, draw_axis=1))
    rhats = np.asarray(array_stats.rhat(quantities, chain_axis=0, draw_axis=1))
    proposals = tree.attrs["proposals"] / tree.attrs["updates"]
    return {
        "log_likelihood": float(sizes[0]),
        "worst_element": float(sizes[1:].min()),
        "rhat": float(rhats.max()),
        "evaluations_per_update": proposals,
        "per_1000_evaluations": 1000 * float(sizes.min()) / (CHAINS * updates * proposals),
    }


def medians(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of each number over runs."""
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def line(row: dict[str, Any]) -> str:
    """Return a line of the printed table."""
    return (
        f"{row['problem']:5} {row['method']:28} {row['evaluations_per_update']:5.2f} evaluations per update   "
        f"ESS {row['log_likelihood']:6,.0f} {row['worst_element']:6,.0f}   R-hat {row['rhat']:.3f}   "
        f"{row['per_1000_evaluations']:.3f} per 1,000 evaluations, ratio {row['ratio_to_figure_2']:.2f}"
    )


if __name__ == "__main__":
    main()

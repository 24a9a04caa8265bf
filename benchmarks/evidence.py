"""Compare estimates of the log marginal likelihood on the paper's problems with exact and approximate values.

    python benchmarks/evidence.py --out benchmarks/results/evidence.json

R01 to R10 have a closed form. They run from the prior, which is harder and possible for every likelihood; from
expectation propagation their error would be zero. USPS and Mine run with the defaults of `es.evidence` and are compared
with the Laplace approximation and with expectation propagation.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal

import ellipslice as es
from ellipslice.apps.paper.problems import NOISE, PROBLEMS, problem
from ellipslice.machine import commit, machine


def main() -> None:
    """Print a row per problem, and write all rows after each."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--problems", default=",".join(PROBLEMS))
    options.add_argument("--particles", type=int, default=1000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--out", type=Path)
    given = options.parse_args()

    about = {"machine": machine("jax"), "commit": commit(), "arguments": sys.argv[1:]}
    print("       exact      SMC  error  errors off      AIS  error   Laplace        EP  steps  updates  seconds")
    rows = []
    for name in given.problems.split(","):
        rows.append(row := measure(name, given.particles, given.seed))
        off = "" if row["exact"] is None else f"{(row['log_z'] - row['exact']) / row['standard_error']:+.1f}"
        exact = "" if row["exact"] is None else f"{row['exact']:.2f}"
        print(
            f"{name:4} {exact:>7} {row['log_z']:8.2f} {row['standard_error']:6.3f} {off:>11} {row['ais_log_z']:8.2f}"
            f" {row['ais_standard_error']:6.3f} {row['laplace']:9.2f} {row['ep']:9.2f} {row['steps']:6} "
            f"{row['updates']:8} {row['seconds']:8.0f}",
            flush=True,
        )
        for warning in row["warnings"]:
            print(f"     {warning}", flush=True)
        if given.out:
            record = {**about, "particles": given.particles, "seed": given.seed, "evidence": rows}
            given.out.write_text(json.dumps(record, indent=1), encoding="utf8")


def measure(name: str, particles: int, seed: int) -> dict[str, Any]:
    """Return all estimates of log Z on one problem, as a row of the results."""
    one = problem(name)
    prior, exact, reference = es.Dense(one.covariance), None, "auto"
    if name.startswith("R"):
        size = len(one.covariance)
        exact = float(multivariate_normal(cov=one.covariance + NOISE**2 * np.eye(size)).logpdf(one.likelihood.y))
        reference = None
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        result = es.evidence(one.likelihood, prior, particles=particles, reference=reference, seed=seed)
    return {
        "problem": name,
        "exact": exact,
        "reference": result.reference,
        "log_z": result.log_z,
        "standard_error": result.standard_error,
        "ais_log_z": result.ais_log_z,
        "ais_standard_error": result.ais_standard_error,
        "ais_effective_sample_size": result.ais_effective_sample_size,
        "estimates_agree": result.estimates_agree,
        "laplace": es.approximate_evidence(one.likelihood, prior, "laplace"),
        "ep": es.approximate_evidence(one.likelihood, prior, "ep"),
        "steps": len(result.inverse_temperatures),
        "updates": int(result.updates.sum()),
        "worst_correlation": float(result.correlations.max()),
        "surviving_fraction": result.surviving_fraction,
        "evaluations": result.evaluations,
        "seconds": math.ceil(result.seconds),
        "warnings": [str(warning.message) for warning in raised],
    }


if __name__ == "__main__":
    main()

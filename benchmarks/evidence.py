"""Compare estimates of the log marginal likelihood on the paper's problems with exact and approximate values.

    python benchmarks/evidence.py --out benchmarks/results/evidence.json
    python benchmarks/evidence.py --method nested --problems R01,R02,Pines

R01 to R10 have a closed form. They run from the prior, which is harder and possible for every likelihood; from
expectation propagation their error would be zero. USPS and Mine are compared with the Laplace approximation and with
expectation propagation. "Pines" has the counts of the Finnish pines in 30 x 30 squares, with a fixed kernel.
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

PINES_VARIANCE = 1.91
"""Prior variance of the log intensity of the pines, whose length scale is 30 / 33 of a square."""


def main() -> None:
    """Print a row per problem, and write all rows after each."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--problems", default=",".join(PROBLEMS))
    options.add_argument("--method", choices=("tempered", "nested"), default="tempered")
    options.add_argument("--particles", type=int, default=1000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--out", type=Path)
    given = options.parse_args()

    about = {"machine": machine("jax"), "commit": commit(), "arguments": sys.argv[1:]}
    print("         exact  log Z  error  errors off      AIS  error   Laplace        EP  updates  seconds")
    rows = []
    for name in given.problems.split(","):
        rows.append(row := measure(name, given.method, given.particles, given.seed))
        off = "" if row["exact"] is None else f"{(row['log_z'] - row['exact']) / row['standard_error']:+.1f}"
        exact = "" if row["exact"] is None else f"{row['exact']:.2f}"
        ais, ais_error = row.get("ais_log_z", math.nan), row.get("ais_standard_error", math.nan)
        print(
            f"{name:5}{exact:>8}{row['log_z']:9.2f} {row['standard_error']:6.3f} {off:>11} {ais:8.2f} {ais_error:6.3f}"
            f" {row['laplace']:9.2f} {row['ep']:9.2f} {row['updates']:8} {row['seconds']:8.0f}",
            flush=True,
        )
        for warning in row["warnings"]:
            print(f"     {warning}", flush=True)
        if given.out:
            record = {**about, "particles": given.particles, "seed": given.seed, "evidence": rows}
            given.out.write_text(json.dumps(record, indent=1), encoding="utf8")


def model(name: str) -> tuple[Any, es.Prior]:
    """Return the likelihood and the prior of a problem."""
    if name != "Pines":
        one = problem(name)
        return one.likelihood, es.Dense(one.covariance)
    counts = es.data.finnish_pines()
    places = np.stack([part.ravel() for part in np.indices(counts.shape)], axis=-1)
    distance = np.sqrt(((places[:, None] - places) ** 2).sum(-1))
    offset = np.log(counts.sum() / counts.size) - PINES_VARIANCE / 2
    covariance = PINES_VARIANCE * np.exp(-distance / (30 / 33))
    return es.likelihoods.Poisson(counts.ravel(), offset=offset), es.Dense(covariance)


def measure(name: str, method: str, particles: int, seed: int) -> dict[str, Any]:
    """Return all estimates of log Z on one problem, as a row of the results."""
    likelihood, prior = model(name)
    exact, options = None, {}
    if name.startswith("R"):
        covariance = problem(name).covariance
        exact = float(multivariate_normal(cov=covariance + NOISE**2 * np.eye(len(covariance))).logpdf(likelihood.y))
        options = {"reference": None}
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        result = es.evidence(likelihood, prior, method=method, particles=particles, seed=seed, **options)
    names = (
        *("log_z", "standard_error", "blind_spot", "information", "evaluations", "ais_log_z", "ais_standard_error"),
        *("ais_effective_sample_size", "estimates_agree", "surviving_fraction", "reference"),
        *("ideal_standard_error", "rank_p_value"),
    )
    return {
        "problem": name,
        "method": method,
        "exact": exact,
        **{own: getattr(result, own) for own in names if hasattr(result, own)},
        "laplace": es.approximate_evidence(likelihood, prior, "laplace"),
        "ep": es.approximate_evidence(likelihood, prior, "ep"),
        "updates": int(np.sum(result.updates)),
        "seconds": math.ceil(result.seconds),
        "warnings": [str(warning.message) for warning in raised],
    }


if __name__ == "__main__":
    main()

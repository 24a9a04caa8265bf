"""The elliptical part of the paper's Figure 6: 12 problems, 100 chains each, 10,000 + 100,000 updates.

    python benchmarks/figure6_elliptical.py --precision single      # on a GPU
    python benchmarks/figure6_elliptical.py                         # on CPU cores, in double precision

Everything is counted: setting up, compiling, sampling, and bringing every log-likelihood home. The authors' MATLAB took
about 61 hours for it.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import jax

import ellipslice as es
from ellipslice.paper import PROBLEMS, problem


def main() -> None:
    """Run it, and print a row for each problem."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--precision", default="double", choices=("double", "single"))
    options.add_argument("--problems", default=",".join(PROBLEMS))
    options.add_argument("--chains", type=int, default=100)
    options.add_argument("--warmup", type=int, default=10_000)
    options.add_argument("--draws", type=int, default=100_000)
    options.add_argument("--out", type=Path)
    asked = options.parse_args()

    rows, began = [], time.perf_counter()
    print("problem  engine      seconds  evaluations  mean log-likelihood")
    for name in asked.problems.split(","):
        one, since = problem(name), time.perf_counter()
        tree = es.sample(
            one.likelihood,
            es.Dense(one.covariance),
            draws=asked.draws,
            warmup=asked.warmup,
            chains=asked.chains,
            seed=2010,
            keep=lambda f: f[:1],
            precision=asked.precision,
            progress=False,
        )
        by_chain = tree["sample_stats"]["log_likelihood"].mean("draw").to_numpy()
        row = {
            "problem": name,
            "engine": tree.attrs["engine"],
            "seconds": time.perf_counter() - since,
            "proposals_per_update": tree.attrs["proposals"] / tree.attrs["updates"],
            "mean_log_likelihood": float(by_chain.mean()),
            "standard_error": float(by_chain.std(ddof=1) / len(by_chain) ** 0.5),
        }
        rows.append(row)
        print(
            f"{name:7}  {row['engine']:10} {row['seconds']:8.2f} {row['proposals_per_update']:12.3f}"
            f"  {row['mean_log_likelihood']:.3f} ± {row['standard_error']:.3f}",
            flush=True,
        )
    seconds = time.perf_counter() - began
    print(f"all: {seconds:.1f} s on {jax.devices()[0].device_kind}, {asked.precision} precision, JAX {jax.__version__}")
    if asked.out:
        machine = {"device": jax.devices()[0].device_kind, "jax": jax.__version__, "precision": asked.precision}
        result = {
            "machine": machine,
            "chains": asked.chains,
            "draws": asked.draws,
            "seconds": seconds,
            "problems": rows,
        }
        asked.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()

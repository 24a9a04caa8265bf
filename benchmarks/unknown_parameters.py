"""Compare effective samples per second with NumPyro's NUTS: coal mining with unknown amplitude and length scale.

    python benchmarks/unknown_parameters.py                 # 112 yearly bins, three runs each, in turn
    python benchmarks/unknown_parameters.py --bins 811 --minutes 10 --repeats 1

Each run has its own process, so its time includes compilation and warm-up. Both samplers run two chains on two cores,
with the same model, the same priors and double precision. The score is the smallest effective sample size of the
logarithms of the hyperparameters (by ArviZ), per second. A run that takes longer than `--minutes` is stopped and counts
as 0.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from ellipslice.machine import commit, machine

DRAWS, WARMUP = 1000, 500

JITTER = 1e-9
"""Added to the diagonal of the correlation matrix of NUTS. (Effective samples per second: 2.4; with 1e-6, 2.2.)"""


def data(bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Return times in years, and counts."""
    import ellipslice as es

    coal = es.data.coal_mining()
    if bins == 811:
        return coal.bin_years, coal.counts
    edges = np.linspace(1851, 1963, bins + 1)
    return (edges[1:] + edges[:-1]) / 2, np.histogram(coal.years, edges)[0]


def ellipslice(bins: int) -> dict[str, np.ndarray]:
    """Return draws of the hyperparameters by `LatentGP`."""
    import numpyro.distributions as dist
    from tinygp import kernels

    import ellipslice as es

    x, y = data(bins)
    model = es.gp.LatentGP(
        lambda amplitude, length_scale: amplitude**2 * kernels.ExpSquared(length_scale),
        es.likelihoods.Poisson,
        mean=float(np.log(191 / len(x))),
        parameters={"amplitude": dist.LogNormal(0.0, 1.0), "length_scale": dist.LogNormal(np.log(20.0), 1.0)},
    )
    fit = model.fit(x, y, draws=DRAWS, warmup=WARMUP, chains=2, seed=int(os.environ["SEED"]), progress=False)
    return {name: fit.tree["posterior"][name].values for name in ("amplitude", "length_scale")}


def nuts(bins: int) -> dict[str, np.ndarray]:
    """Return draws of the hyperparameters by NumPyro's NUTS, with whitened f."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS
    from tinygp import kernels

    jax.config.update("jax_enable_x64", True)
    numpyro.set_host_device_count(2)
    x, y = data(bins)

    def model() -> None:
        amplitude = numpyro.sample("amplitude", dist.LogNormal(0.0, 1.0))
        length_scale = numpyro.sample("length_scale", dist.LogNormal(np.log(20.0), 1.0))
        z = numpyro.sample("z", dist.Normal(jnp.zeros(len(x)), 1.0))
        covariance = kernels.ExpSquared(length_scale)(x, x) + JITTER * jnp.eye(len(x))
        f = np.log(191 / len(x)) + amplitude * jnp.linalg.cholesky(covariance) @ z
        numpyro.sample("y", dist.Poisson(jnp.exp(f)), obs=y)

    chains = MCMC(NUTS(model), num_warmup=WARMUP, num_samples=DRAWS, num_chains=2, progress_bar=False)
    chains.run(jax.random.key(int(os.environ["SEED"])))
    drawn = chains.get_samples(group_by_chain=True)
    return {name: np.asarray(drawn[name]) for name in ("amplitude", "length_scale")}


SAMPLERS = {"ellipslice": ellipslice, "nuts": nuts}


def run_one(name: str, bins: int) -> None:
    """Run one sampler in this process and print effective sample sizes and means as JSON."""
    from arviz_stats.base import array_stats

    draws = SAMPLERS[name](bins)
    sizes = {key: float(array_stats.ess(np.log(value), chain_axis=0, draw_axis=1)) for key, value in draws.items()}
    means = {key: float(np.log(value).mean()) for key, value in draws.items()}
    print(json.dumps({"effective": sizes, "mean_of_log": means}))


def timed(name: str, bins: int, seed: int, minutes: float) -> dict[str, Any]:
    """Run one sampler in its own process and return its wall-clock time and effective samples per second."""
    command = [sys.executable, __file__, "--one", name, "--bins", str(bins)]
    environment = os.environ | {"SEED": str(seed), "JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "ignore"}
    began = time.perf_counter()
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=60 * minutes
        )
    except subprocess.TimeoutExpired:
        return {"contestant": name, "seconds": time.perf_counter() - began, "finished": False}
    seconds = time.perf_counter() - began
    found = json.loads(done.stdout.splitlines()[-1])
    rate = min(found["effective"].values()) / seconds
    return {"contestant": name, "seconds": seconds, "finished": True, "effective_per_second": rate, **found}


def main() -> None:
    """Time both samplers in turn; with `--one`, run one of them in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bins", type=int, default=112)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--one", choices=SAMPLERS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.one:
        run_one(options.one, options.bins)
        return
    about = {"machine": machine("jax", "numpyro"), "commit": commit(), "arguments": sys.argv[1:]}
    rows = []
    for seed in range(options.repeats):
        for name in SAMPLERS:
            rows.append(timed(name, options.bins, seed, options.minutes))
            print(json.dumps(rows[-1]), flush=True)
    medians = {
        name: statistics.median(row.get("effective_per_second", 0.0) for row in rows if row["contestant"] == name)
        for name in SAMPLERS
    }
    ratio = medians["ellipslice"] / medians["nuts"] if medians["nuts"] else float("inf")
    print(f"{options.bins} bins: {medians}, ratio {ratio:.2f}")
    if options.out:
        result = {**about, "bins": options.bins, "rows": rows, "medians": medians}
        options.out.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

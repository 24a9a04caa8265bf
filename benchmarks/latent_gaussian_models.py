"""Time latent Gaussian models to 400 effective samples, and compare them with NumPyro's NUTS.

    python benchmarks/latent_gaussian_models.py --out benchmarks/results/latent_gaussian_models.json
    python benchmarks/latent_gaussian_models.py --problems epil germany --seeds 5 --nuts

The score is CPU seconds of one process, from data to 400 effective samples of every hyperparameter and every linear
predictor (at most 300 of them, evenly spaced): of standard deviations on the log scale, by ArviZ's bulk estimate.

Each problem has its own process. Two models are made and fitted for each seed, one with `draws=1` and one with
`--draws`. The first time is the set-up: construction of the model, compilation of its priors, pilot run and warm-up.
The difference is the time of the other draws. The score is set-up + difference * 400 / ESS, where ESS is the smallest
of the long fit. Imports, and what all models share (compiled by the fit of a tiny model), are not counted; the time of
computing linear predictors and diagnostics is not, either.

For NUTS the score is its warm-up + the time of its draws * 400 / ESS, without compilation, which is stored separately.

Agreement with NUTS: z = difference / Monte Carlo error, for means and standard deviations of the log precisions and of
the linear predictors. All draws of all seeds, and of both runs of NUTS, are used.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import resource
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from arviz_stats.base import array_stats
from latent_gaussian_nuts import CHAINS, Judged, run_nuts
from latent_gaussian_problems import PROBLEMS, Problem, tiny

from ellipslice.machine import commit, machine

TARGET, MOST_ROWS = 400, 300
DRAWS = {"lattice_50": 500, "lattice_100": 300, "lattice_142": 300}
"""Default draws of each chain where they are not 1,000."""
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")

SEEDS_LOG_PRECISION = 3.4388, 0.0034
"""Posterior mean of the log precision of Seeds, and its standard error: by quadrature over the plates and importance
sampling over the others, a computation that shares no code with this library."""
EPIL_STAN = {"Intercept": (1.572, 0.078), "treatment": (-0.955, 0.414)}
"""Published posterior means and standard deviations of Epil, by Stan."""


def main() -> None:
    """Print and store one entry for each problem."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    options.add_argument("--seeds", type=int, default=5, help="number of seeds of each problem")
    options.add_argument("--draws", type=int, help="draws of each of the four chains (default: 1000, less on lattices)")
    options.add_argument("--solver", choices=("numba", "cholmod"), default="numba")
    options.add_argument("--nuts", action="store_true", help="also run NumPyro's NUTS")
    options.add_argument("--nuts-warmup", type=int, default=500)
    options.add_argument("--nuts-draws", type=int, default=1000)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    entries: dict[str, Any] = {}
    about = {"commit": commit(), "arguments": arguments(given)}  # of the start: files may change during the run
    if given.out and given.out.exists():
        entries = json.loads(given.out.read_text(encoding="utf8"))["problems"]
    for name in given.problems:
        with multiprocessing.get_context("spawn").Pool(1) as process:
            entry = process.apply(compare, (name, given))
        entries[name] = entry | about
        print(json.dumps({name: entries[name]}), flush=True)
        if given.out:
            environment = {each: os.environ[each] for each in THREAD_VARIABLES if each in os.environ}
            record = {"machine": machine("numpyro", "numba"), "environment": environment, "problems": entries}
            given.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf8")


def arguments(given: argparse.Namespace) -> str:
    """Return the arguments of this process without problems and output."""
    return " ".join(f"--{key.replace('_', '-')} {value}" for key, value in vars(given).items()
                    if key not in ("problems", "out") and value not in (None, False))  # fmt: skip


class Run(NamedTuple):
    """A seed's draws and times."""

    setup: float
    rest: float
    """CPU seconds of the long fit minus set-up."""
    hyperparameters: np.ndarray
    """Logarithms of standard deviations, and logits of proportions. Shape (chains, draws, hyperparameters)."""
    eta: np.ndarray
    """Shape (chains, draws, rows)."""
    fixed: dict[str, float]
    factorisations: float
    """Mean number of factorisations of an update."""
    peak_memory_mib: float
    """Peak of the process after the fit, before linear predictors of all rows and draws are computed."""

    def score(self) -> dict[str, float]:
        """Return CPU seconds to the target, and what they consist of."""
        of_hyperparameters, of_eta = ess(self.hyperparameters), ess(self.eta)
        smallest = min(of_hyperparameters.min(), of_eta.min())
        draws = self.eta.shape[0] * self.eta.shape[1]
        return {
            "seconds": self.setup + self.rest * TARGET / smallest,
            "setup": self.setup,
            "ms_per_update": 1000 * self.rest / draws,
            "ess_per_draw_hyperparameters": of_hyperparameters.min() / draws,
            "ess_per_draw_eta": of_eta.min() / draws,
            "rhat_hyperparameters": rhat(self.hyperparameters).max(),
            "rhat_eta": rhat(self.eta).max(),
            "factorisations_per_update": self.factorisations,
        }


def compare(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Return the scores of this library on a problem, and of NUTS if it is asked for. It has its own process."""
    tiny().fit(draws=50, seed=0, progress=False)
    problem = PROBLEMS[name]()
    draws = given.draws or DRAWS.get(name, 1000)
    runs = [timed(problem, draws, seed, given.solver) for seed in range(1, given.seeds + 1)]
    scores = [run.score() for run in runs]
    medians = {key: statistics.median(score[key] for score in scores) for key in scores[0]}
    entry = {
        "bar": problem.bar,
        "draws": draws,
        **{key: rounded(value) for key, value in medians.items()},
        "seconds_of_seeds": [rounded(score["seconds"]) for score in scores],
        "largest_rhat_hyperparameters": rounded(max(score["rhat_hyperparameters"] for score in scores)),
        "largest_rhat_eta": rounded(max(score["rhat_eta"] for score in scores)),
        "peak_memory_mib": round(runs[0].peak_memory_mib),
    }
    if name == "seeds":
        entry["log_precision"] = known_mean(runs)
    if name == "epil":
        entry["coefficients"] = {key: [rounded(run.fixed[key]) for run in runs] for key in EPIL_STAN}
        entry["published"] = EPIL_STAN
    if given.nuts and problem.fields:
        entry["nuts"] = judged(runs, run_nuts(problem, given.nuts_warmup, given.nuts_draws), medians["seconds"])
    return entry


def timed(problem: Problem, draws: int, seed: int, solver: str) -> Run:
    """Fit twice, for one draw and for all of them."""
    _, setup = fitted(problem, 1, seed, solver)
    fit, total = fitted(problem, draws, seed, solver)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    posterior = fit.tree["posterior"].dataset
    rows = np.unique(np.linspace(0, len(problem.y) - 1, min(len(problem.y), MOST_ROWS)).astype(int))
    columns = [unconstrained(name, posterior[name].values) for name in fit.model.hyperparameters]
    means = dict(fit.summary()["mean"])
    return Run(
        setup, total - setup, np.stack(columns, -1), fit.linear_predictor().values[:, :, rows], means,
        float(fit.tree["sample_stats"]["factorisations"].mean()), memory,
    )  # fmt: skip


def fitted(problem: Problem, draws: int, seed: int, solver: str) -> tuple[Any, float]:
    """Return a fit of a new model, and its CPU seconds."""
    start = time.process_time()
    fit = problem.make(solver).fit(draws=draws, seed=seed, progress=False)
    return fit, time.process_time() - start


def unconstrained(name: str, values: np.ndarray) -> np.ndarray:
    """Return logarithms of standard deviations, and logits of proportions. A mean stays as it is."""
    if name == "mean":
        return values
    return np.log(values / (1 - values)) if name.endswith("phi") else np.log(values)


def known_mean(runs: list[Run]) -> dict[str, float]:
    """Compare the mean of the log precision of Seeds with its known value."""
    draws = np.concatenate([-2 * run.hyperparameters[..., 0] for run in runs])
    error = float(draws.std() / math.sqrt(sum(ess(-2 * run.hyperparameters, "mean")[0] for run in runs)))
    mean, (known, known_error) = float(draws.mean()), SEEDS_LOG_PRECISION
    found = {"mean": mean, "error": error, "known": known, "z": (mean - known) / math.hypot(error, known_error)}
    return {key: rounded(value) for key, value in found.items()}


class Moments(NamedTuple):
    """Means and standard deviations with their Monte Carlo errors, each of shape (quantities,)."""

    mean: np.ndarray
    mean_error: np.ndarray
    sd: np.ndarray
    sd_error: np.ndarray

    @classmethod
    def of(cls, parts: list[np.ndarray]) -> Moments:
        """Return the moments of independent runs, shape (chains, draws, quantities) each."""
        draws = np.concatenate([part.reshape(-1, part.shape[-1]) for part in parts])
        mean, sd = draws.mean(0), draws.std(0)
        size = sum(ess(part, "mean") for part in parts)
        size_of_squares = sum(ess((part - mean) ** 2, "mean") for part in parts)
        error_of_variance = ((draws - mean) ** 2).std(0) / np.sqrt(size_of_squares)
        return cls(mean, sd / np.sqrt(size), sd, error_of_variance / (2 * sd))

    def z(self, other: Moments) -> tuple[np.ndarray, np.ndarray]:
        """Return the differences of means and of standard deviations, in standard errors."""
        of_means = (self.mean - other.mean) / np.hypot(self.mean_error, other.mean_error)
        return of_means, (self.sd - other.sd) / np.hypot(self.sd_error, other.sd_error)


def judged(runs: list[Run], nuts: Judged, ours: float) -> dict[str, Any]:
    """Return the speed of NUTS, and the agreement of the two samplers."""
    rows = np.unique(np.linspace(0, nuts.eta.shape[2] - 1, runs[0].eta.shape[2]).astype(int))
    eta, timed_chains = nuts.eta[:, :, rows], nuts.timed_chains
    smallest = min(ess(nuts.log_precisions[timed_chains]).min(), ess(eta[timed_chains]).min())
    seconds = nuts.warmup_seconds + nuts.seconds * TARGET / smallest
    chains = [slice(first, first + CHAINS) for first in (0, CHAINS)]
    of_theta = Moments.of([-2 * run.hyperparameters for run in runs]).z(
        Moments.of([nuts.log_precisions[part] for part in chains])
    )
    of_eta = Moments.of([run.eta for run in runs]).z(Moments.of([eta[part] for part in chains]))
    return {
        "seconds": rounded(seconds),
        "ratio": rounded(seconds / ours),
        "compile_seconds": rounded(nuts.compile_seconds),
        "warmup_seconds": rounded(nuts.warmup_seconds),
        "ess_per_second": rounded(smallest / nuts.seconds),
        "rhat": rounded(max(rhat(nuts.log_precisions).max(), rhat(eta).max())),
        "z_of_means_of_log_precisions": [rounded(each) for each in of_theta[0]],
        "z_of_sds_of_log_precisions": [rounded(each) for each in of_theta[1]],
        "rms_z_of_means_of_eta": rounded(math.sqrt((of_eta[0] ** 2).mean())),
        "rms_z_of_sds_of_eta": rounded(math.sqrt((of_eta[1] ** 2).mean())),
    }


def ess(draws: np.ndarray, method: str = "bulk") -> np.ndarray:
    """Return the effective sample size of each quantity, for draws of shape (chains, draws, quantities)."""
    return np.asarray(array_stats.ess(draws, 0, 1, method=method))


def rhat(draws: np.ndarray) -> np.ndarray:
    """Return R-hat of each quantity."""
    return np.asarray(array_stats.rhat(draws, 0, 1))


def rounded(value: Any) -> float:
    """Return a number with four significant digits."""
    return float(f"{float(value):.4g}")


if __name__ == "__main__":
    main()

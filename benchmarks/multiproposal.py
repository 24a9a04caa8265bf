"""Compare updates with several proposals in parallel to look-ahead, by effective samples per round of evaluations.

    python benchmarks/multiproposal.py --out benchmarks/results/multiproposal.json

With slow evaluations, the time of a run is proportional to the number of rounds: a round is one evaluation on each of 8
workers. The script is a prototype in plain NumPy. It compares updates along the same ellipses:

- cut, halve: Figure 2 of the paper, and its variant `shrinking="halve"`, with look-ahead. With w workers, an update of
  n evaluations takes ceil(n / w) rounds. All ratios are to "cut", the existing default.
- uniform M: M angles, independent and uniform in the bracket, are tried jointly. If none is on the slice, the bracket
  ends at the nearest angle on each side. Else the next state is chosen by a rule.
- strata M: the bracket is divided into M + 1 equal strata. One angle is tried in each, except in the stratum of the
  current state. If none is on the slice, the bracket shrinks to that stratum. Else the next state is chosen by a rule.

The brackets are known in advance. So w workers try w // M of them in parallel. The rules are:

- any: each of the points on the slice is as probable.
- weights: point j, given i, with probability D_ij / Z_i, Z_i = sum_j D_ij, accepted with min(1, Z_i / Z_j).
- assignment: the permutation s that maximises sum_i D_is(i), or its inverse, each with probability 1/2.

D_ij is sin^2 of the angle between two points, which prefers independent ones, or 1 - cos ("opposite"). All of this is
valid: given the slice level, the brackets and the set of points on the slice (with the current state), each point of
the set is as probable to be the current state, because the density of the others is the same given any of them. Each
rule leaves the uniform distribution on the set invariant. In Gaussian problems, the means of f and f^2 are compared
with the closed form: "smallest_p" is the smallest p-value times the number of comparisons.

One chain has 8 workers, or four chains share 8 workers. Each problem has 5 replicates of 4 chains. Effective sample
sizes are bulk estimates of ArviZ; "smallest" is the smaller of those of the log-likelihood and of the worst element of
f, as in the stopping rule of `es.sample`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from arviz_stats.base import array_stats  # pyright: ignore[reportPrivateImportUsage]
from scipy import stats
from scipy.optimize import linear_sum_assignment

from ellipslice.machine import commit, machine

REPLICATES, CHAINS, WARMUP, WORKERS = 5, 4, 500, 8
FULL_TURN = 2 * np.pi
ELEMENTS = 16
"""Largest number of elements of f whose effective sample sizes are computed."""

QUANTITIES = ("smallest", "log_likelihood", "worst_element", "median_element")


class Method(NamedTuple):
    """An update: the proposals of a bracket, how the next state is chosen, and which distance it prefers."""

    name: str
    count: int = 1
    rule: str = "any"
    distance: str = "sin2"


METHODS = [
    *(Method("cut"), Method("halve"), Method("strata")),
    *(Method("strata", 2), Method("strata", 2, "assignment"), Method("strata", 2, "assignment", "opposite")),
    *(Method("strata", count, "assignment") for count in (3, 4, 8)),
    *(Method("uniform", count, "weights") for count in (2, 8)),
    *(Method("uniform", count, "assignment") for count in (2, 8)),
]


class Model(NamedTuple):
    """A prior, as a factor of its covariance, and a log-likelihood of points of shape (..., size)."""

    factor: np.ndarray
    log_likelihood: Callable[[np.ndarray], np.ndarray]
    noise_scale: float = 0.0
    """Standard deviation of Gaussian noise, else 0."""
    y: Any = 0.0


def models() -> dict[str, Model]:
    """Return the problems: a smooth Gaussian process on [0, 1], with data of several kinds at its inputs."""
    made: dict[str, Model] = {}
    for number, (kind, size, setting) in enumerate(PROBLEMS):
        rng = np.random.default_rng(number)
        x = np.linspace(0, 1, size)
        covariance = np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.2**2) + 1e-6 * np.eye(size)
        factor = np.linalg.cholesky(covariance)
        made[f"{kind}, N={size}, {setting}"] = KINDS[kind](factor, factor @ rng.standard_normal(size), setting, rng)
    return made


def gaussian(factor: np.ndarray, f: np.ndarray, noise_scale: float, rng: np.random.Generator) -> Model:
    """Return a model with Gaussian noise."""
    y = f + noise_scale * rng.standard_normal(len(f))
    return Model(factor, lambda f: -0.5 * (((y - f) / noise_scale) ** 2).sum(-1), noise_scale, y)


def poisson(factor: np.ndarray, f: np.ndarray, offset: float, rng: np.random.Generator) -> Model:
    """Return a model with counts of mean exp(f + offset)."""
    y = rng.poisson(np.exp(f + offset))
    return Model(factor, lambda f: (y * f - np.exp(f + offset)).sum(-1))


def student(factor: np.ndarray, f: np.ndarray, noise_scale: float, rng: np.random.Generator) -> Model:
    """Return a model with Student-t noise of 3 degrees of freedom, which is not log-concave."""
    y = f + noise_scale * rng.standard_t(3, len(f))
    return Model(factor, lambda f: -2 * np.log1p(((y - f) / noise_scale) ** 2 / 3).sum(-1))


def squares(factor: np.ndarray, f: np.ndarray, noise_scale: float, rng: np.random.Generator) -> Model:
    """Return a model that observes f^2 with Gaussian noise. Its posterior has several modes."""
    y = f**2 + noise_scale * rng.standard_normal(len(f))
    return Model(factor, lambda f: -0.5 * (((y - f**2) / noise_scale) ** 2).sum(-1))


KINDS = {"Gaussian": gaussian, "Poisson": poisson, "Student-t": student, "squares": squares}
PROBLEMS: list[tuple[str, int, float]] = [
    *(("Gaussian", 2, 0.5), ("Gaussian", 10, 2.0), ("Gaussian", 50, 0.5), ("Gaussian", 200, 2.0)),
    *(("Poisson", 10, 0.0), ("Poisson", 50, 1.0), ("Poisson", 200, -1.0)),
    *(("Student-t", 50, 0.5), ("squares", 10, 0.5)),
]
"""Kind, number of elements, and noise scale or offset."""


class Bracket:
    """The brackets of all chains, around the current states at angle 0."""

    def __init__(self, method: Method, rng: np.random.Generator, chains: int):
        self.method, self.rng = method, rng
        self.high = FULL_TURN * rng.random(chains)
        self.low = self.high - FULL_TURN

    def first(self, chains: np.ndarray) -> np.ndarray:
        """Return the first angles: the end of the bracket in Figure 2."""
        return self.high[:, None] if self.method.name in ("cut", "halve") else self.propose(chains)

    def propose(self, chains: np.ndarray) -> np.ndarray:
        """Return angles in the brackets of some chains, shape (chains, count)."""
        low, high, count = self.low[chains, None], self.high[chains, None], self.method.count
        if self.method.name != "strata":
            return low + (high - low) * self.rng.random((len(chains), count))
        number = np.arange(count)[None] + (np.arange(count)[None] >= self._own_part(chains, count + 1)[:, None])
        return low + (high - low) / (count + 1) * (number + self.rng.random(number.shape))

    def shrink(self, chains: np.ndarray, rejected: np.ndarray) -> None:
        """Shrink the brackets of some chains after all angles were rejected."""
        if self.method.name in ("cut", "uniform"):
            self.low[chains] = np.maximum(self.low[chains], np.where(rejected < 0, rejected, -np.inf).max(1))
            self.high[chains] = np.minimum(self.high[chains], np.where(rejected >= 0, rejected, np.inf).min(1))
            return
        parts = 2 if self.method.name == "halve" else self.method.count + 1
        low, width = self.low[chains], (self.high[chains] - self.low[chains]) / parts
        own = self._own_part(chains, parts)
        self.low[chains], self.high[chains] = np.minimum(low + own * width, 0), np.maximum(low + (own + 1) * width, 0)

    def _own_part(self, chains: np.ndarray, parts: int) -> np.ndarray:
        width = (self.high[chains] - self.low[chains]) / parts
        return np.clip(np.floor(-self.low[chains] / width), 0, parts - 1)


def choose(method: Method, angles: np.ndarray, rng: np.random.Generator) -> float:
    """Return the next angle: 0, which is the current state, or one of `angles`, which are on the slice."""
    points = np.sort(np.append(angles, 0.0))
    here, count = int(np.searchsorted(points, 0.0)), len(points)
    if method.rule == "any" or count == 2:  # every rule moves to the only other point
        return float(rng.choice(angles))
    apart = points[:, None] - points
    weights = np.sin(apart) ** 2 if method.distance == "sin2" else 1 - np.cos(apart)
    if method.rule == "weights":
        total = weights.sum(1)
        there = int(rng.choice(count, p=weights[here] / total[here]))
        return float(points[there]) if rng.random() * total[there] < total[here] else 0.0
    permutation = linear_sum_assignment(weights, maximize=True)[1]
    return float(points[permutation[here] if rng.random() < 0.5 else np.argsort(permutation)[here]])


class Chains:
    """Twenty chains of one method on one model."""

    def __init__(self, model: Model, seed: int):
        self.model, self.rng = model, np.random.default_rng(seed)
        self.f = self._prior_draws()
        self.value = model.log_likelihood(self.f)

    def _prior_draws(self) -> np.ndarray:
        size = len(self.model.factor)
        return self.rng.standard_normal((REPLICATES * CHAINS, size)) @ self.model.factor.T

    def update(self, method: Method) -> np.ndarray:
        """Make an update of every chain. Return the number of brackets that each has tried."""
        nu, level = self._prior_draws(), self.value - self.rng.standard_exponential(len(self.f))
        bracket, used = Bracket(method, self.rng, len(self.f)), np.zeros(len(self.f))
        active = np.arange(len(self.f))
        angles = bracket.first(active)
        while len(active):
            used[active] += 1
            f = self.f[active, None] * np.cos(angles)[..., None] + nu[active, None] * np.sin(angles)[..., None]
            on_slice = self.model.log_likelihood(f) > level[active, None]
            ended = on_slice.any(1)
            for row in np.flatnonzero(ended):
                self._move(active[row], choose(method, angles[row, on_slice[row]], self.rng), nu)
            active, angles = active[~ended], angles[~ended]
            bracket.shrink(active, angles)
            angles = bracket.propose(active)
        self.value = self.model.log_likelihood(self.f)
        return used

    def _move(self, chain: int, angle: float, nu: np.ndarray) -> None:
        self.f[chain] = self.f[chain] * np.cos(angle) + nu[chain] * np.sin(angle)


def measure(model: Model, method: Method, updates: int, seed: int) -> dict[str, Any]:
    """Run all chains. Return effective sample sizes and rounds per update, one value for each replicate."""
    chains = Chains(model, seed)
    some = np.unique(np.linspace(0, len(model.factor) - 1, ELEMENTS).astype(int))
    f, values, used = [], [], []
    for number in range(WARMUP + updates):
        made = chains.update(method)
        if number >= WARMUP:
            f.append(chains.f[:, some])
            values.append(chains.value)
            used.append(made)
    quantities = np.concatenate([np.stack(values)[..., None], np.stack(f)], axis=-1)
    per_replicate = quantities.reshape(updates, REPLICATES, CHAINS, -1).transpose(1, 2, 0, 3)
    sizes = np.array([array_stats.ess(one, chain_axis=0, draw_axis=1) for one in per_replicate])
    result: dict[str, Any] = {
        "smallest": sizes.min(1).tolist(),
        "log_likelihood": sizes[:, 0].tolist(),
        "worst_element": sizes[:, 1:].min(1).tolist(),
        "median_element": np.median(sizes[:, 1:], axis=1).tolist(),
    }
    used_by = np.stack(used).reshape(updates, REPLICATES, CHAINS).swapaxes(0, 1).reshape(REPLICATES, -1)
    result["rounds_per_update"] = {str(w): rounds(used_by, method.count, w).mean(1).tolist() for w in (8, 2)}
    result["brackets_per_update"] = float(used_by.mean())
    if model.noise_scale:
        result["smallest_p"] = smallest_p(model, quantities[..., 1:], some)
    return result


def rounds(brackets: np.ndarray, count: int, workers: int) -> np.ndarray:
    """Return the rounds of updates with `count` evaluations per bracket, for a number of workers per chain."""
    return np.ceil(brackets / (workers // count)) if count <= workers else brackets * np.ceil(count / workers)


def smallest_p(model: Model, f: np.ndarray, some: np.ndarray) -> float:
    """Return the smallest p-value of the means of f and f^2 of all elements kept, times the number of comparisons."""
    prior = model.factor @ model.factor.T
    gain = np.linalg.solve(prior + model.noise_scale**2 * np.eye(len(prior)), prior).T
    mean, variance = (gain @ model.y)[some], np.diag(prior - gain @ prior)[some]
    errors = []
    for values, expected in ((f, mean), (f**2, mean**2 + variance)):
        batches = values.mean(axis=0)  # one mean per chain; chains are independent
        errors.append((batches.mean(0) - expected) / (batches.std(0, ddof=1) / np.sqrt(len(batches))))
    p = 2 * stats.t.sf(np.abs(errors), REPLICATES * CHAINS - 1)
    return float(min(1, p.min() * p.size))


def compare(plain: dict[str, Any], other: dict[str, Any], chains: int) -> dict[str, float]:
    """Return the ratios of effective samples per round to those of look-ahead: medians over the replicates."""
    workers = str(WORKERS // chains)
    faster = np.array(plain["rounds_per_update"][workers]) / np.array(other["rounds_per_update"][workers])
    return {name: float(np.median(np.array(other[name]) / np.array(plain[name]) * faster)) for name in QUANTITIES}


def main() -> None:
    """Print the ratios of every method, and write all measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=3000, help="Updates per chain after 500 of warm-up.")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, model in models().items():
        plain: dict[str, Any] = {}
        for number, method in enumerate(METHODS):
            found = measure(model, method, given.updates, 1 + number)
            plain = plain or found
            ratios = {f"chains_{chains}": compare(plain, found, chains) for chains in (1, 4)}
            rows.append({"problem": name, **method._asdict(), **found, **ratios})
            shown = "  ".join(f"{ratio:.2f}" for part in ratios.values() for ratio in part.values())
            tried, p = found["brackets_per_update"], found.get("smallest_p", 1)
            print(f"{name:24} {label(method):34} {tried:5.2f} brackets  {shown}  p {p:.2f}", flush=True)
    summary = summarise(rows)
    for line in summary:
        print(*line.values(), sep="\t")
    if given.out:
        about = {"command": " ".join(["python", *sys.argv]), "commit": commit(), "machine": machine()}
        given.out.write_text(json.dumps(about | {"summary": summary, "rows": rows}, indent=1) + "\n", encoding="utf8")


def label(method: Method) -> str:
    """Return the name of a method in tables."""
    return f"{method.name} {method.count}, {method.rule}" + (", opposite" if method.distance == "opposite" else "")


def summarise(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the median and the range over problems of each ratio, for every method and number of chains."""
    found: dict[tuple[Any, ...], list[float]] = {}
    for row, chains, quantity in itertools.product(rows, (1, 4), QUANTITIES):
        method = label(Method(*(row[field] for field in Method._fields)))
        found.setdefault((method, chains, quantity), []).append(row[f"chains_{chains}"][quantity])
    names = ("method", "chains", "quantity")
    return [
        dict(zip(names, key, strict=True), median=statistics.median(r), smallest=min(r), largest=max(r))
        for key, r in found.items()
    ]


if __name__ == "__main__":
    main()

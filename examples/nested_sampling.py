"""
Inside nested sampling
======================

Nested sampling with dynesty, its live points moved along ellipses.

::

    python examples/nested_sampling.py        # writes nested_sampling.png

Nested sampling draws new points from the prior where the likelihood is above that of the worst live point. dynesty does
so by random walks or slices in the unit cube. If the prior is Gaussian, elliptical slice sampling does it with no scale
to tune: the likelihood of an update is 1 above the bound and 0 below it, so `es.step` is all that is needed.

The problem is a Gaussian process with Gaussian noise, whose evidence is known. Printed are log Z by dynesty with
ellipses and with its own random slices, what each says its error is, and how many evaluations it took.
"""

from __future__ import annotations

import argparse
from typing import Any

import dynesty
import numpy as np
from dynesty.internal_samplers import InternalSampler, SamplerReturn
from dynesty.utils import SamplerHistoryItem
from scipy.special import ndtr, ndtri

import ellipslice as es


class EllipticalSampler(InternalSampler):
    """An inner move for dynesty: a few elliptical slices from a live point, all above the bound.

    For prior transforms that take the unit cube to standard normals first, as below. `updates` is how many slices lie
    between a live point and its successor.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.sampler_kwargs["updates"] = kwargs["updates"]

    @staticmethod
    def sample(args: Any) -> SamplerReturn:
        """A point that is nearly independent of the live point it starts from."""
        rng, history = np.random.default_rng(args.rseed), []

        def above(z: np.ndarray) -> float:
            u = ndtr(z)
            v = args.prior_transform(u)
            point = SamplerHistoryItem(u=u, v=v, logl=args.loglikelihood(v))
            history.append(point)
            return 0.0 if point.logl > args.loglstar else -np.inf

        z, reached = ndtri(args.u), None
        for _ in range(args.kwargs["updates"]):
            z, _, info = es.step(z, rng.standard_normal(len(z)), above, rng=rng, log_likelihood_f=0.0)
            reached = reached if info.search_failed else history[-1]  # the last point tried is the one that was taken
        if reached is None:
            raise RuntimeError("no update moved; is the log-likelihood flat at its top?")
        about = {"n_accept": args.kwargs["updates"], "n_reject": len(history) - args.kwargs["updates"]}
        return SamplerReturn(reached.u, reached.v, reached.logl, len(history), history, {}, about)


def problem(size: int) -> tuple[Any, Any, float]:
    """A log-likelihood, a prior transform and the true log Z: a smooth function seen with noise."""
    rng = np.random.default_rng(1)
    x = np.linspace(0, 1, size)
    prior = es.Dense(np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.1**2) + 0.01 * np.eye(size))
    y = prior.simulate(rng) + 0.3 * rng.standard_normal(size)

    def log_likelihood(f: np.ndarray) -> float:
        return float(-0.5 * np.sum((y - f) ** 2) / 0.09 - 0.5 * size * np.log(2 * np.pi * 0.09))

    def prior_transform(u: np.ndarray) -> np.ndarray:
        return prior.unwhiten(ndtri(u))

    total = prior.rows.T @ prior.rows + 0.09 * np.eye(size)
    log_z = -0.5 * (y @ np.linalg.solve(total, y) + np.linalg.slogdet(2 * np.pi * total)[1])
    return log_likelihood, prior_transform, float(log_z)


def main(size: int = 20, live: int = 200, updates: int = 10, picture: str | None = None) -> None:
    """Print a row for each way to move live points, and draw how they went."""
    log_likelihood, prior_transform, truth = problem(size)
    print(f"{size} values, {live} live points; log Z is {truth:.2f}")
    print(f"{'':<16} {'log Z':>8} {'error':>6} {'evaluations':>12}")
    runs = {}
    for name, move in (("ellipses", EllipticalSampler(updates=updates)), ("random slices", "rslice")):
        sampler = dynesty.NestedSampler(
            log_likelihood,
            prior_transform,
            size,
            nlive=live,
            bound="none" if name == "ellipses" else "multi",
            sample=move,
            rstate=np.random.default_rng(1),
        )
        sampler.run_nested(print_progress=False)
        found = runs[name] = sampler.results
        print(f"{name:<16} {found.logz[-1]:>8.2f} {found.logzerr[-1]:>6.2f} {int(np.sum(found.ncall)):>12,}")
    if picture:
        draw(runs, truth, picture)


def draw(runs: dict[str, Any], truth: float, path: str) -> None:
    """The evidence as it grows with the prior volume that is left out, and the true one."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for (name, found), colour in zip(runs.items(), ("#0072B2", "#D55E00"), strict=True):
        left.plot(-found.logvol, found.logl, color=colour, label=name)
        right.plot(-found.logvol, found.logz, color=colour, label=name)
    left.set(
        xlabel="-log of the prior volume above", ylabel="log-likelihood", ylim=np.quantile(found.logl, [0.05, 1.0])
    )
    right.axhline(truth, color="black", linestyle="--", label="exact")
    right.set(xlabel="-log of the prior volume above", ylabel="log Z so far", ylim=(truth - 20, truth + 5))
    right.legend(frameon=False)
    for panel in (left, right):
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=20)
    parser.add_argument("--live", type=int, default=200)
    parser.add_argument("--picture", default="nested_sampling.png")
    main(**vars(parser.parse_args()))

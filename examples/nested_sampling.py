"""
Nested sampling with dynesty and elliptical slice sampling
==========================================================

Nested sampling needs draws from the prior, restricted to a likelihood above that of the worst live point. For a
Gaussian prior, elliptical slice sampling makes such draws without a scale to tune: the likelihood of its update is 1
above the bound and 0 below it, so `es.step` is sufficient. This example uses it as the inner sampler of dynesty and
compares the estimated log marginal likelihood with the exact value and with dynesty's own random slices.
``es.evidence(..., method="nested")`` is nested sampling without dynesty, which moves many points in parallel.

::

    python examples/nested_sampling.py        # writes nested_sampling.png

The problem is a Gaussian process with Gaussian noise, whose log marginal likelihood log Z is known. The table has log
Z, the error that dynesty estimates, and the number of evaluations. Convergence diagnostics of Markov chains do not
apply here: compare log Z with its error.
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
    """Inner sampler for dynesty: elliptical slice sampling above the likelihood bound, from a live point.

    The prior transform must map the unit cube to standard normals first, as below. `updates` is the number of updates
    from a live point to the new one.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.sampler_kwargs["updates"] = kwargs["updates"]

    @staticmethod
    def sample(args: Any) -> SamplerReturn:
        """Return a point that is nearly independent of the live point from which it starts."""
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
            reached = (
                reached if info.search_failed else history[-1]
            )  # the last point that was tried is the accepted one
        if reached is None:
            raise RuntimeError("no update moved. The log-likelihood may be constant at its maximum.")
        counts = {"n_accept": args.kwargs["updates"], "n_reject": len(history) - args.kwargs["updates"]}
        return SamplerReturn(reached.u, reached.v, reached.logl, len(history), history, {}, counts)


def problem(size: int) -> tuple[Any, Any, float]:
    """Return log-likelihood, prior transform and exact log Z of a smooth function with Gaussian noise."""
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
    """Run dynesty with both inner samplers, print a row for each and write the plot."""
    log_likelihood, prior_transform, truth = problem(size)
    print(f"{size} elements, {live} live points; exact log Z {truth:.2f}")
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
    """Plot the log-likelihood and log Z against the remaining prior volume."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for (name, found), colour in zip(runs.items(), ("#0072B2", "#D55E00"), strict=True):
        left.plot(-found.logvol, found.logl, color=colour, label=name)
        right.plot(-found.logvol, found.logz, color=colour, label=name)
    left.set(
        xlabel="−log of the remaining prior volume", ylabel="log-likelihood", ylim=np.quantile(found.logl, [0.05, 1.0])
    )
    right.axhline(truth, color="black", linestyle="--", label="exact")
    right.set(xlabel="−log of the remaining prior volume", ylabel="log Z so far", ylim=(truth - 20, truth + 5))
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

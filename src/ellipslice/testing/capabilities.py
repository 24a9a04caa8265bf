"""The laws of what a prior can do beyond drawing, each against the dense formula."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ellipslice.priors import Prior
from ellipslice.testing.assertions import require, require_close


def check_capabilities(prior: Prior, factor: np.ndarray, seed: int) -> None:
    """Check the capabilities of a prior with covariance factor.T @ factor."""
    rng = np.random.default_rng(seed + 2)
    f = rng.standard_normal((3, len(factor))) @ factor
    for name, check in (("whiten", _check_whiten), ("log_density", _check_log_density)):
        if name in prior.capabilities:
            check(prior, factor, f)
            _check_mapped(prior, name, f)
    if "condition" in prior.capabilities:
        size = prior.size
        some = np.flatnonzero(rng.random(size) < 0.5)
        for block in ([rng.integers(size)], [*some, rng.integers(size)], np.arange(size)):
            _check_condition(prior, factor, f, rng.permutation(np.unique(block)))


def _check_mapped(prior: Prior, name: str, f: np.ndarray) -> None:
    """A function of one vector takes any number of them, and can be compiled."""

    def apply(p: Prior, x: np.ndarray) -> Any:
        return getattr(p, name)(x)

    # Compiled once for each shape, which is faster than operation by operation.
    compiled = jax.jit(apply) if prior.traceable else apply
    whole = np.asarray(apply(prior, f))
    slack = 1e-9 * max(1.0, float(np.abs(whole[np.isfinite(whole)]).max(initial=0.0)))
    _near(compiled(prior, f[0]), whole[0], slack, f"{name} of one vector, compiled, differs from {name} of a batch")
    _near(compiled(prior, np.stack([f, 2 * f]))[0], whole, slack, f"{name} does not take several leading axes")


def _check_whiten(prior: Prior, factor: np.ndarray, f: np.ndarray) -> None:
    z = np.asarray(prior.whiten(f))
    expected = (len(f), len(factor))
    require(z.shape == expected, f"whiten maps {f.shape} to {z.shape}; expected {expected}")
    require_close(prior.unwhiten(z), f, "whiten does not invert unwhiten")
    inverse, slack = _pseudo_inverse(factor)[:2]
    smallest = np.linalg.norm(f @ inverse, axis=1)
    _near(np.linalg.norm(z, axis=1), smallest, slack * smallest.max(), "whiten does not give the smallest z")


def _check_log_density(prior: Prior, factor: np.ndarray, f: np.ndarray) -> None:
    inverse, slack, log_determinant, rank = _pseudo_inverse(factor)
    value = np.asarray(prior.log_density(f))
    require(value.shape == (len(f),), f"log_density maps {f.shape} to {value.shape}; expected {(len(f),)}")
    squares = np.sum((f @ inverse) ** 2, axis=1)
    expected = -0.5 * (squares + log_determinant + rank * np.log(2 * np.pi))
    scale = squares.max() + abs(log_determinant) + rank
    if slack < 1e-6:  # else the numerical rank, and with it the density on the span, is a matter of taste
        _near(value, expected, slack * scale, "log_density is not that of the covariance")
    if rank < prior.size:
        direction = np.linalg.svd(factor)[2][-1] * np.abs(f).max()
        require(
            bool(np.isneginf(prior.log_density(f[0] + direction))),
            "log_density is not minus infinity away from the span of a singular covariance",
        )


def _check_condition(prior: Prior, factor: np.ndarray, f: np.ndarray, block: np.ndarray) -> None:
    conditional = prior.condition(block)
    indices = np.asarray(conditional.block)
    require(
        np.array_equal(indices, np.sort(block)), f"condition({block}) says its block is {indices}; expected it sorted"
    )
    require(conditional.prior.size == len(block), f"{len(block)} values given the rest have {conditional.prior.size}")
    require(conditional.prior.mean is None, "the prior of a conditional has a mean")
    rest = np.setdiff1d(np.arange(prior.size), block)
    scale = np.linalg.norm(factor, axis=0)
    scale[scale == 0] = 1.0
    # On the factor, in units of each value's deviation: the dense formula without squaring its condition number.
    inverse, slack = _pseudo_inverse(factor[:, rest] / scale[rest])[:2]
    share = inverse @ (factor[:, indices] / scale[indices])
    mean = (f[:, rest] / scale[rest]) @ share
    others = f.copy()
    others[:, indices] = 17.0 * scale[indices]  # the block's own values must not matter
    got, unmoved = np.asarray(_mean(conditional, np.stack([f, others]))) / scale[indices]
    size = np.abs(f / scale).max(initial=0.0)
    _near(got, mean, slack * size, "the mean of condition is not the dense formula's")
    _near(unmoved, mean, slack * max(size, 17.0), "the mean depends on the values of the block itself")
    left = factor[:, indices] / scale[indices] - (factor[:, rest] / scale[rest]) @ share
    spread = np.asarray(conditional.prior.unwhiten(np.eye(conditional.prior.noise_size))) / scale[indices]
    _near(spread.T @ spread, left.T @ left, slack, "the prior of condition has not the dense formula's covariance")


_mean = jax.jit(lambda conditional, f: conditional.mean(f))


def _pseudo_inverse(factor: np.ndarray) -> tuple[np.ndarray, float, float, int]:
    """The pseudo-inverse of a factor, the error to expect of it, its log pseudo-determinant squared and its rank."""
    if 0 in factor.shape:
        return np.zeros(factor.shape[::-1]), 1e-9, 0.0, 0
    left, values, right = np.linalg.svd(factor, full_matrices=False)
    kept = values > max(factor.shape) * np.finfo(float).eps * values[0]
    left, values, right = left[:, kept], values[kept], right[kept]
    # Errors grow with the condition number; a cut of small values, in one code and not in the other, is as large as
    # what was cut.
    slack = 1e-9 + 1e-11 * float(values[0] / values[-1]) if len(values) else 1e-9
    return (right.T / values) @ left.T, min(slack, 1e-5), 2 * float(np.sum(np.log(values))), len(values)


def _near(a: Any, b: Any, tolerance: float, broken: str) -> None:
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    require(a.shape == b.shape, f"{broken}: shapes {a.shape} and {b.shape}")
    worst = float(np.abs(a - b).max(initial=0.0))
    require(worst <= tolerance, f"{broken}: off by {worst:.3g}, where {tolerance:.3g} is rounding")

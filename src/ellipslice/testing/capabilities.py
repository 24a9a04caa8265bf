"""Property tests of the optional capabilities of a prior, each compared with the formula for dense matrices."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ellipslice.priors import Prior
from ellipslice.testing.assertions import require, require_close


def check_capabilities(prior: Prior, factor: np.ndarray, seed: int) -> None:
    """Check the capabilities of a prior whose covariance is factor.T @ factor. Raise if one is wrong."""
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
    """Check that the method `name` takes any number of leading axes, and can be compiled if the prior is traceable."""

    def apply(p: Prior, x: np.ndarray) -> Any:
        return getattr(p, name)(x)

    # Compiling once for each shape is faster than running operation by operation.
    compiled = jax.jit(apply) if prior.traceable else apply
    whole = np.asarray(apply(prior, f))
    slack = 1e-9 * max(1.0, float(np.abs(whole[np.isfinite(whole)]).max(initial=0.0)))
    _near(compiled(prior, f[0]), whole[0], slack, f"{name} of one vector, compiled, differs from {name} of a batch")
    _near(compiled(prior, np.stack([f, 2 * f]))[0], whole, slack, f"{name} does not take several leading axes")


def _check_whiten(prior: Prior, factor: np.ndarray, f: np.ndarray) -> None:
    """Check that `whiten` returns the z of smallest norm for which `unwhiten(z)` is f."""
    z = np.asarray(prior.whiten(f))
    expected = (len(f), len(factor))
    require(z.shape == expected, f"whiten maps {f.shape} to {z.shape}; expected {expected}")
    require_close(prior.unwhiten(z), f, "whiten does not invert unwhiten")
    inverse, slack = _pseudo_inverse(factor)[:2]
    smallest = np.linalg.norm(f @ inverse, axis=1)
    _near(np.linalg.norm(z, axis=1), smallest, slack * smallest.max(), "whiten does not give the smallest z")


def _check_log_density(prior: Prior, factor: np.ndarray, f: np.ndarray) -> None:
    """Check that `log_density` is that of N(0, factor.T @ factor), and minus infinity outside its support."""
    inverse, slack, log_determinant, rank = _pseudo_inverse(factor)
    value = np.asarray(prior.log_density(f))
    require(value.shape == (len(f),), f"log_density maps {f.shape} to {value.shape}; expected {(len(f),)}")
    squares = np.sum((f @ inverse) ** 2, axis=1)
    expected = -0.5 * (squares + log_determinant + rank * np.log(2 * np.pi))
    scale = squares.max() + abs(log_determinant) + rank
    if slack < 1e-6:  # else the numerical rank is ambiguous, and with it the density on the span
        _near(value, expected, slack * scale, "log_density is not that of the covariance")
    if rank < prior.size:
        direction = np.linalg.svd(factor)[2][-1] * np.abs(f).max()
        require(
            bool(np.isneginf(prior.log_density(f[0] + direction))),
            "log_density is not minus infinity away from the span of a singular covariance",
        )


def _check_condition(prior: Prior, factor: np.ndarray, f: np.ndarray, block: np.ndarray) -> None:
    """Check the mean and the covariance of a block given the rest."""
    conditional = prior.condition(block)
    indices = np.asarray(conditional.block)
    require(np.array_equal(indices, np.sort(block)), f"condition({block}) has the block {indices}; expected it sorted")
    elements = conditional.prior.size
    require(elements == len(block), f"the prior of {len(block)} elements given the rest has {elements} elements")
    require(conditional.prior.mean is None, "the prior of a conditional has a mean")
    rest = np.setdiff1d(np.arange(prior.size), block)
    scale = np.linalg.norm(factor, axis=0)
    scale[scale == 0] = 1.0
    # The dense formula is applied to the factor, in units of each element's standard deviation, because the covariance
    # matrix would have the square of its condition number.
    inverse, slack = _pseudo_inverse(factor[:, rest] / scale[rest])[:2]
    share = inverse @ (factor[:, indices] / scale[indices])
    mean = (f[:, rest] / scale[rest]) @ share
    others = f.copy()
    others[:, indices] = 17.0 * scale[indices]  # the mean must not depend on the elements of the block
    got, unmoved = np.asarray(_mean(conditional, np.stack([f, others]))) / scale[indices]
    size = np.abs(f / scale).max(initial=0.0)
    _near(got, mean, slack * size, "the mean of condition is not that of the dense formula")
    _near(unmoved, mean, slack * max(size, 17.0), "the mean of condition depends on the elements of the block itself")
    left = factor[:, indices] / scale[indices] - (factor[:, rest] / scale[rest]) @ share
    spread = np.asarray(conditional.prior.unwhiten(np.eye(conditional.prior.noise_size))) / scale[indices]
    _near(spread.T @ spread, left.T @ left, slack, "the covariance of condition is not that of the dense formula")


_mean = jax.jit(lambda conditional, f: conditional.mean(f))


def _pseudo_inverse(factor: np.ndarray) -> tuple[np.ndarray, float, float, int]:
    """Return the pseudo-inverse of a factor, its relative error, twice its log pseudo-determinant, and its rank."""
    if 0 in factor.shape:
        return np.zeros(factor.shape[::-1]), 1e-9, 0.0, 0
    left, values, right = np.linalg.svd(factor, full_matrices=False)
    kept = values > max(factor.shape) * np.finfo(float).eps * values[0]
    left, values, right = left[:, kept], values[kept], right[kept]
    # Errors grow with the condition number. A singular value near the threshold may be dropped by one code and kept by
    # the other, so the slack is at least of the size of the threshold.
    slack = 1e-9 + 1e-11 * float(values[0] / values[-1]) if len(values) else 1e-9
    return (right.T / values) @ left.T, min(slack, 1e-5), 2 * float(np.sum(np.log(values))), len(values)


def _near(a: Any, b: Any, tolerance: float, broken: str) -> None:
    """Raise unless two arrays differ by at most `tolerance` in each element."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    require(a.shape == b.shape, f"{broken}: shapes {a.shape} and {b.shape}")
    worst = float(np.abs(a - b).max(initial=0.0))
    require(
        worst <= tolerance, f"{broken}: largest difference {worst:.3g}, but rounding errors are below {tolerance:.3g}"
    )

"""Property tests of priors."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from ellipslice.jax_settings import jax_settings
from ellipslice.priors import Prior
from ellipslice.priors.base import CAPABILITIES
from ellipslice.pytree import renewed
from ellipslice.testing.assertions import require, require_close, require_p_value
from ellipslice.testing.capabilities import check_capabilities


def check_prior(prior: Prior, *, covariance: Any = None, seed: int = 0) -> None:
    """Check that a prior is consistent. Raise an `AssertionError` that names the property if one does not hold.

    - Shapes, layout and mean are consistent.
    - `unwhiten` is linear and takes batches. It can be compiled if the prior is traceable.
    - `draw_zero_mean` is a deterministic function of its generator. The draws are Gaussian with mean zero and the
      covariance of `unwhiten`.
    - Capabilities that the prior has are correct: `whiten` inverts `unwhiten`, `log_density` is that of the covariance,
      and `condition` gives the result of the formula for dense matrices.
    - Capabilities that the prior does not have raise a TypeError that names an alternative.
    - `device_factor`, if it is not None, is the matrix of `unwhiten`.

    Parameters
    ----------
    prior : Prior
    covariance : array, shape (size, size), optional
        The covariance that the prior should have. It is compared with that of `unwhiten` up to rounding error, and with
        that of the draws by a statistical test. Default: the covariance of `unwhiten`.
    seed : int
        Seed of the tests. Default: 0.
    """
    if not isinstance(prior, Prior) or jax.tree_util.all_leaves([prior]):
        raise TypeError(
            f"check_prior was called with {prior!r}; expected an instance of a Prior that is a pytree. Derive its "
            "class from Prior and decorate it with ellipslice.pytree.pytree, as in priors/diagonal.py."
        )
    prior = renewed(prior)
    size = prior.size
    require(size >= 1, f"size is {size}; expected at least 1")
    require(
        sum(math.prod(shape) for _, shape in prior.layout) == size,
        f"layout {prior.layout} does not add up to size {size}",
    )
    mean = None if prior.mean is None else np.asarray(prior.mean)
    require(
        mean is None or mean.shape == (size,),
        f"mean has shape {None if mean is None else mean.shape}; expected ({size},), or None for 0",
    )
    require(mean is None or bool(np.isfinite(mean).all()), "mean is not finite")

    factor = None
    if _has_unwhiten(prior):
        with jax_settings():
            factor = _check_unwhiten(prior, np.random.default_rng(seed))
    if covariance is not None:
        covariance = np.asarray(covariance, dtype=np.float64)
        require(
            covariance.shape == (size, size),
            f"the given covariance has shape {covariance.shape}; expected ({size}, {size})",
        )
        if factor is not None:
            require_close(factor.T @ factor, covariance, "the covariance of unwhiten is not the given covariance")
    elif factor is not None:
        covariance = factor.T @ factor
    _check_draws(prior, covariance, seed)
    _check_optional(prior, factor, seed)


def _check_optional(prior: Prior, factor: np.ndarray | None, seed: int) -> None:
    """Check the capabilities that a prior has, those that it does not have, and `device_factor`."""
    for capability in CAPABILITIES:
        if capability not in prior.capabilities:
            _check_missing(prior, capability)
        elif factor is None:
            raise AssertionError(f"the prior has `{capability}`, which requires `unwhiten`, too")
    if factor is not None:
        with jax_settings():
            if prior.capabilities:
                check_capabilities(prior, factor, seed)
            if (matrix := prior.device_factor()) is not None:
                require_close(matrix, factor, "device_factor is not the matrix of unwhiten")


def _has_unwhiten(prior: Prior) -> bool:
    """Return True if a prior has `unwhiten`. Raise if `linear` contradicts that."""
    try:
        size = prior.noise_size
    except TypeError:
        require(not prior.linear, "noise_size raises a TypeError, but `linear` is True")
        return False
    require(prior.linear, "noise_size does not raise, but `linear` is False")
    return size >= 1


def _check_missing(prior: Prior, capability: str) -> None:
    """Check that a missing capability raises a TypeError that names an alternative."""
    argument = [0] if capability == "condition" else np.zeros(prior.size)
    try:
        getattr(prior, capability)(argument)
    except TypeError as error:
        require(
            f"no `{capability}`" in str(error) and "use " in str(error).lower(),
            f"the error of a missing capability does not name it, or names no alternative: {error}",
        )
    else:
        raise AssertionError(f"`{capability}` is not among the prior's capabilities, but it did not raise a TypeError")


def _check_unwhiten(prior: Prior, rng: np.random.Generator) -> np.ndarray:
    """Check `unwhiten`, and return its matrix, shape (noise_size, size)."""
    size, noise = prior.size, prior.noise_size
    x, y = rng.standard_normal((2, 3, noise))
    drawn = np.asarray(prior.unwhiten(x))
    require(drawn.shape == (3, size), f"unwhiten maps (3, {noise}) to {drawn.shape}; expected (3, {size})")
    require_close(prior.unwhiten(2.5 * x - y), 2.5 * drawn - np.asarray(prior.unwhiten(y)), "unwhiten is not linear")
    require_close(prior.unwhiten(np.zeros(noise)), np.zeros(size), "unwhiten does not map 0 to 0")
    require_close(
        np.stack([prior.unwhiten(row) for row in x]), drawn, "unwhiten of a batch differs from unwhiten of its rows"
    )
    require_close(prior.unwhiten(np.stack([x, y]))[1], prior.unwhiten(y), "unwhiten does not take several leading axes")
    if prior.traceable:
        require_close(jax.jit(lambda p, z: p.unwhiten(z))(prior, x), drawn, "compiled unwhiten differs from unwhiten")
    leaves, structure = jax.tree.flatten(prior)
    again = jax.tree.unflatten(structure, leaves)
    require_close(again.unwhiten(x), drawn, "unwhiten differs after the prior was flattened and rebuilt as a pytree")
    return np.asarray(prior.unwhiten(np.eye(noise)))


def _check_draws(prior: Prior, covariance: np.ndarray | None, seed: int, count: int = 2000) -> None:
    """Check that draws have the right shape, mean and covariance, are Gaussian, and depend only on the generator."""
    from scipy import stats  # slow to import, and needed only here

    rng = np.random.default_rng(seed)
    draws = np.asarray(prior.draw_zero_mean(rng, count))
    require(
        draws.shape == (count, prior.size),
        f"draw_zero_mean(rng, {count}) has shape {draws.shape}; expected {(count, prior.size)}",
    )
    require(bool(np.isfinite(draws).all()), "draw_zero_mean returns values that are not finite")
    again = np.asarray(prior.draw_zero_mean(np.random.default_rng(seed), count))
    require(
        np.array_equal(draws, again),
        "draw_zero_mean is not a function of its generator: the same seed gave different draws",
    )
    weights = np.random.default_rng(seed + 1).standard_normal((prior.size, 8))
    weights[:, :2] = np.eye(prior.size)[:, [0, -1]]  # single elements, too, whose variance a sum could hide
    values = draws @ weights
    for j in range(8):
        variance = values[:, j].var() if covariance is None else float(weights[:, j] @ covariance @ weights[:, j])
        if variance <= 1e-20 * float(np.sum(weights[:, j] ** 2)) * (draws**2).mean():
            continue  # a direction in which the prior is constant
        scaled = values[:, j] / math.sqrt(variance)
        require_p_value(2 * float(stats.norm.sf(abs(scaled.mean()) * math.sqrt(count))), "draws do not have mean zero")
        spread = stats.chi2(count).cdf(float(np.sum(scaled**2)))
        require_p_value(2 * min(spread, 1 - spread), "draws do not have the expected covariance")
        require_p_value(float(stats.kstest(scaled, "norm").pvalue), "draws are not Gaussian")

"""Kernels of Gaussian processes by name, Euclidean and isotropic, and the default prior of their length scale."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import optimize, stats
from scipy.spatial import KDTree
from scipy.spatial.distance import pdist

from ellipslice.latent.hyperpriors import LENGTH_SCALE, SD, Hyperparameter, numpyro_distributions, pc_range

NAMES = ("matern12", "matern32", "matern52", "squared_exponential")
"""Names of the kernels: Matérn kernels with smoothness 1/2, 3/2 and 5/2, and their limit."""
HYPERPARAMETERS: Mapping[str, Hyperparameter] = MappingProxyType({"sd": SD, "length_scale": LENGTH_SCALE})
"""Hyperparameters of every kernel that has a name."""

_CLASSES = dict(zip(NAMES, ("Exp", "Matern32", "Matern52", "ExpSquared"), strict=True))
SMALLEST_RATIO = 10.0
"""Smallest ratio of the two quantiles of the prior of a length scale."""


def named_kernel(name: str, *, one_axis: bool) -> Callable[..., Any]:
    """Return a kernel as a function of its hyperparameters, sd and length_scale. Raise if there is none of this name.

    The correlations at distance d, with r = d / length_scale, are exp(-r) for "matern12",
    (1 + sqrt(3) r) exp(-sqrt(3) r) for "matern32", (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r) for "matern52", and
    exp(-r^2 / 2) for "squared_exponential". On one axis the first three are Markov in time.

    Parameters
    ----------
    name : str
    one_axis : bool
        Whether an input is one number.
    """
    if name not in NAMES:
        raise ValueError(
            f"GP: kernel is {name!r}. Expected one of {', '.join(map(repr, NAMES))}, a kernel, or a function that "
            "returns one."
        )
    try:
        import tinygp  # noqa: F401
    except ImportError:
        raise ImportError("GP requires tinygp. Install it with: pip install 'ellipslice[gp]'.") from None
    is_markov = one_axis and name != "squared_exponential"
    return functools.partial(in_time if is_markov else between_places, _CLASSES[name])


def in_time(kind: str, sd: Any, length_scale: Any) -> Any:
    """Return a quasi-separable kernel of times."""
    from tinygp.kernels import quasisep

    return getattr(quasisep, kind)(length_scale, sigma=sd)


def between_places(kind: str, sd: Any, length_scale: Any) -> Any:
    """Return a kernel of the Euclidean distance."""
    from tinygp import kernels
    from tinygp.kernels.distance import L2Distance

    return sd**2 * getattr(kernels, kind)(length_scale, distance=L2Distance())


def length_scale_prior(inputs: np.ndarray, term: str) -> Any:
    """Return the default prior of a length scale, an inverse gamma distribution.

    With two axes, twice the length scale has the default prior of the range of `Matern`: the penalised-complexity prior
    with P(2 length scales < a tenth of the longer side) = 0.05. Two length scales are the range of a Matérn kernel of
    any smoothness. Otherwise, the 1 % quantile is the typical distance of an input to its nearest neighbour, and the
    99 % quantile the largest distance. The first is at most a tenth of the second.

    Parameters
    ----------
    inputs : array, shape (n,) or (n, axes)
        Distinct inputs.
    term : str
        Name of the term, for messages.
    """
    points = inputs.reshape(len(inputs), -1)
    side = float(np.ptp(points, axis=0).max())
    if side == 0:
        raise ValueError(
            f"{term}: all rows have the same input, which does not determine a length scale. Drop the term."
        )
    if points.shape[1] == 2:
        return pc_range(0.05 * side, 0.05)
    largest = side if points.shape[1] == 1 else float(pdist(points).max())
    nearest = float(np.median(KDTree(points).query(points, k=2)[0][:, 1]))
    return inverse_gamma(min(nearest, largest / SMALLEST_RATIO), largest)


def inverse_gamma(low: float, high: float) -> Any:
    """Return the inverse gamma distribution whose 1 % and 99 % quantiles are two positive numbers."""

    def excess(log_shape: float) -> float:
        small, large = np.log(stats.gamma.ppf((0.01, 0.99), np.exp(log_shape)))
        return large - small - np.log(high / low)

    log_shape: Any = optimize.brentq(excess, np.log(0.02), np.log(100.0))
    shape = float(np.exp(log_shape))
    return numpyro_distributions().InverseGamma(shape, high * float(stats.gamma.ppf(0.01, shape)))

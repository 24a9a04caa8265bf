"""Checks for mistakes in a log-likelihood that raise no error and give wrong draws.

**The prior counted twice.** Users sometimes pass the log-posterior where the log-likelihood is expected. The check
evaluates the function along unit directions d of the standard normals z of a prior draw f = unwhiten(z). Along d the
log-prior is the parabola -z^2 / 2, for any width |unwhiten(d)| of the prior: its second difference for steps of 1 is
exactly -1, and its slope at z is -d.z. The data add (width of the direction)^2 times the curvature of the
log-likelihood in f. This contribution differs between directions of different width, and it vanishes where the
log-likelihood is flat. Three observations therefore show that the function contains the prior:

- *exact*: in at least 3 directions the second difference is -1 within 1e-3, and the slope is the prior's within 0.02.
  The data contain no information about these directions.
- *similar*: in at least 3 directions, and a third of all, the second difference is between -1.1 and -0.98, and the
  widths of these directions differ by a factor of 2. Curvature from data would differ by a factor of 4 there.
- *far*: a thousand prior standard deviations from the mean, where counts and rates are flat, the second difference is
  -1 within 1e-3 in at least 3 directions in which it is below -1.01 at the mean.

The check cannot detect the prior if the data are very informative in every direction, nor the prior of one latent of a
`Stack`. Data that are exactly as informative as the prior in every direction look like the prior. Only compiled
functions are evaluated far from the mean: a simulator might not return from there.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Hashable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ellipslice.checks import warn
from ellipslice.engines.base import Engine
from ellipslice.likelihoods import Likelihood
from ellipslice.posterior import Posterior
from ellipslice.priors import Prior

Evaluate = Callable[[np.ndarray], float]

CURVATURE_TOLERANCE = 1e-3
"""Largest difference from -1 of a second difference that is attributed to the prior."""

SLOPE_TOLERANCE = 0.02
"""Largest difference of a slope from that of the prior."""

SIMILAR_CURVATURE = (-1.1, -0.98)
"""Range of second differences that are similar to the prior's -1, with a small contribution from the data."""

MIN_WIDTH_RATIO = 2.0
"""Smallest ratio of the widths of directions with similar curvature: data would make it differ by the square of it."""

FAR_EXCESS = 0.01
"""Smallest contribution of the data to the curvature at the mean, for directions that are compared far from it."""

MIN_DIRECTIONS = 3
"""Number of directions that must agree, because one or two may agree by chance. With fewer directions, all must."""

DIRECTIONS_PER_SIMILAR = 3
"""At least one in this many directions must have similar curvature."""

NEAR_SCALES = (0.0, 4.0, -4.0)
"""Distances from the mean, in prior standard deviations, of the points around which directions are examined."""

FAR_SCALES = (1000.0, -1000.0)
"""Distances at which the log-likelihood of counts and rates is flat, in prior standard deviations."""

RELATIVE_ROUNDING = 1e-12
"""Assumed relative rounding error of a log-likelihood value: a sum of thousands of terms in double precision."""

MAX_ROUNDING = 0.01
"""Largest rounding error of a second difference that is used."""

MAX_DIRECTIONS = 24
"""Largest number of directions that are examined. Each costs two evaluations around a point."""

MAX_DECOMPOSED = 512
"""Largest number of normals whose directions are found by a singular value decomposition."""

_checked: WeakKeyDictionary[Prior, set[Hashable]] = WeakKeyDictionary()
"""Log-likelihoods that passed the check, by prior, so that later runs skip it."""


def warn_if_not_deterministic(before: float, after: float, when: str, rounding: float = 1e-7) -> bool:
    """Warn if two evaluations at the same f differ. Return whether they did."""
    random = not abs(before - after) <= rounding * (1 + abs(before))
    if random:
        warn(
            f"the log-likelihood is not a function of f alone: at the same f it gave {before:.8g} and {when} "
            f"{after:.8g}. The draws will be wrong. Check for random numbers, mini-batches or data that change."
        )
    return random


def check_concave(engine: Engine, pairs: int = 24) -> None:
    """Raise if `log_concave=True` is wrong: no compiled engine, or not concave between prior draws."""
    if not engine.traced:
        raise ValueError(
            "log_concave=True was given, but the log-likelihood runs on the host engine, which has no gradients. "
            "Write it with jax.numpy, or leave log_concave out."
        )
    rng = np.random.default_rng(0)
    one, two = engine.posterior.points(rng, 2 * pairs).reshape(2, pairs, -1)
    evaluate = _nan_on_error(engine.evaluate)
    for a, b in zip(one, two, strict=True):
        ends, middle = (evaluate(a) + evaluate(b)) / 2, evaluate((a + b) / 2)
        if middle < ends - 1e-8 * (1 + abs(ends)):
            raise ValueError(
                "log_concave=True was given, but the log-likelihood is not concave: its mean at two points is "
                f"{ends:.8g}, but halfway between them it is {middle:.8g}. Leave log_concave out."
            )


def warn_if_prior_counted_twice(engine: Engine, seconds: float = 1.0) -> None:
    """Warn if the log-likelihood seems to contain the log-prior, which would then count twice."""
    posterior = engine.posterior
    if isinstance(posterior.log_likelihood.callable, Likelihood):
        return  # built-in likelihoods never contain the prior, so skip the check
    if not posterior.prior.linear:
        return  # a prior that is known only by its draws has no directions to examine
    checked = _checked.setdefault(posterior.given_prior, set())
    if (identity := engine.likelihood_key) in checked:
        return
    if not _curvature_matches_prior(engine, posterior.prior.noise_size, seconds):
        if identity is not None:
            checked.add(identity)
    else:
        warn(
            "the log-likelihood seems to contain the log density of the prior: in several directions it has the "
            "curvature of the prior. The prior would count twice. Give the likelihood alone. If you did, ignore this "
            "warning: your data happen to be exactly as informative as the prior."
        )


class _Curvature(NamedTuple):
    """A log-likelihood along one direction, from its values one step up, at the point and one step down."""

    second_difference: float
    slope: float
    rounding: float
    """Rounding error of the second difference."""

    @property
    def is_exact(self) -> bool:
        """True if the second difference is the prior's -1. False if the rounding error is too large to decide."""
        difference = abs(self.second_difference + 1)
        return self.rounding < MAX_ROUNDING and difference < CURVATURE_TOLERANCE + self.rounding

    @property
    def is_similar(self) -> bool:
        """True if the second difference is near the prior's -1."""
        low, high = SIMILAR_CURVATURE
        return low < self.second_difference < high


def _curvature_matches_prior(engine: Engine, size: int, seconds: float) -> bool:
    """Return whether the log-likelihood has the curvature of the log-prior, by the three criteria of this module."""
    directions, steps = _directions(engine.posterior, size)
    widths = np.linalg.norm(steps, axis=1)
    order = np.argsort(widths)  # the narrowest first, because the data are least informative about them
    directions, steps, widths = directions[order], steps[order], widths[order]
    probe = _CurvatureProbe(engine, steps, seconds)
    rng = np.random.default_rng(0)
    at_mean: list[_Curvature] = []
    for scale in NEAR_SCALES:
        z = scale * rng.standard_normal(size)
        found = probe(z)
        at_mean = at_mean or found
        if _is_exact(found, -directions @ z) or _is_similar(found, widths):
            return True
    if not engine.traced:
        return False
    for scale in FAR_SCALES:
        found = probe(scale * np.abs(rng.standard_normal(size)))  # one sign, so that all counts and rates become flat
        if _is_exact_only_far(found, at_mean):
            return True
    return False


def _is_exact(found: list[_Curvature], prior_slopes: np.ndarray) -> bool:
    pairs = zip(found, prior_slopes, strict=False)  # there may not have been time for all directions
    agree = [one.is_exact and abs(one.slope - slope) < SLOPE_TOLERANCE for one, slope in pairs]
    return _enough(agree, len(found))


def _is_similar(found: list[_Curvature], widths: np.ndarray) -> bool:
    similar = [width for one, width in zip(found, widths, strict=False) if one.is_similar]
    enough = len(similar) >= max(MIN_DIRECTIONS, len(found) // DIRECTIONS_PER_SIMILAR)
    return enough and max(similar) > MIN_WIDTH_RATIO * min(similar)


def _is_exact_only_far(far: list[_Curvature], at_mean: list[_Curvature]) -> bool:
    pairs = zip(far, at_mean, strict=False)
    agree = [one.is_exact and near.second_difference < -1 - FAR_EXCESS for one, near in pairs]
    return _enough(agree, len(far))


def _enough(agree: list[bool], examined: int) -> bool:
    """Return whether enough of the directions that were examined agree."""
    return examined > 0 and sum(agree) >= min(MIN_DIRECTIONS, examined)


class _CurvatureProbe:
    """Probe of the curvature in directions around a point, until the time is spent."""

    def __init__(self, engine: Engine, steps: np.ndarray, seconds: float):
        self._posterior, self._evaluate, self._steps = engine.posterior, _nan_on_error(engine.evaluate), steps
        self._seconds, self._began = seconds, time.perf_counter()

    def __call__(self, z: np.ndarray) -> list[_Curvature]:
        """Return the curvature along the first directions; an empty list if the log-likelihood is too slow."""
        found: list[_Curvature] = []
        if self._is_late(1):
            return found
        base = _unwhiten(self._posterior, z[None])[0]
        middle = self._evaluate(base)
        if self._is_late(2):
            return found
        for step in self._steps:
            up, down = self._evaluate(base + step), self._evaluate(base - step)
            rounding = RELATIVE_ROUNDING * (abs(up) + abs(middle) + abs(down))
            found.append(_Curvature(up - 2 * middle + down, (up - down) / 2, rounding))
            if len(found) >= MIN_DIRECTIONS and self._is_late(1):
                break
        return found

    def _is_late(self, times: int) -> bool:
        return time.perf_counter() - self._began > times * self._seconds


def _nan_on_error(evaluate: Evaluate) -> Evaluate:
    """Return the function with NaN instead of exceptions, and without warnings: chains may never reach these points."""

    def evaluate_or_nan(f: np.ndarray) -> float:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                return evaluate(f)
            except Exception:  # noqa: BLE001
                return math.nan

    return evaluate_or_nan


def _directions(posterior: Posterior, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return unit directions d of the normals, from the narrowest to the widest, and unwhiten(d) of each."""
    if size <= MAX_DECOMPOSED:
        left, _, _ = np.linalg.svd(_unwhiten(posterior, np.eye(size)), full_matrices=False)
        directions = left.T[np.unique(np.linspace(0, len(left.T) - 1, MAX_DIRECTIONS).astype(int))]
    else:
        axes = np.unique(np.linspace(0, size - 1, MAX_DIRECTIONS).astype(int))
        directions = np.zeros((len(axes), size))
        directions[np.arange(len(axes)), axes] = 1.0
    return directions, _unwhiten(posterior, directions)


def _unwhiten(posterior: Posterior, z: np.ndarray) -> np.ndarray:
    return np.asarray(posterior.prior.unwhiten(z))

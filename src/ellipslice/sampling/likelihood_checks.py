"""Mistakes that run without an error and give wrong answers: noticed before the run, and named."""

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

_innocent: WeakKeyDictionary[Prior, set[Hashable]] = WeakKeyDictionary()
"""Log-likelihoods that do not contain the prior. It takes a while to see, so runs that follow need not look again."""


def warn_if_random(before: float, after: float, when: str, rounding: float = 1e-7) -> bool:
    """The same f must give the same value; whether it did not."""
    random = not abs(before - after) <= rounding * (1 + abs(before))
    if random:
        warn(
            f"the log-likelihood is not a function of f alone: at the same f it gave {before:.8g} and {when} "
            f"{after:.8g}. The draws will be wrong. Look for random numbers, mini-batches or data that change."
        )
    return random


def check_concave(engine: Engine, pairs: int = 24) -> None:
    """Refuse a log-likelihood that was declared concave and cannot use it, or visibly is not."""
    if engine.name == "host":
        raise ValueError(
            "concave=True was given, but the log-likelihood runs on the host engine, which has no gradients. Write it "
            "with jax.numpy, or leave concave out."
        )
    rng = np.random.default_rng(0)
    one, two = engine.posterior.points(rng, 2 * pairs).reshape(2, pairs, -1)
    evaluate = _forgiving(engine.evaluate)
    for a, b in zip(one, two, strict=True):
        ends, middle = (evaluate(a) + evaluate(b)) / 2, evaluate((a + b) / 2)
        if middle < ends - 1e-8 * (1 + abs(ends)):
            raise ValueError(
                f"concave=True was given, but the log-likelihood is not concave: halfway between two points where it "
                f"averages {ends:.8g} it is {middle:.8g}. Leave concave out."
            )


def warn_if_prior_inside(engine: Engine, seconds: float = 1.0) -> None:
    """Warn if the log-likelihood seems to contain the log-prior as well, which would then count twice."""
    posterior = engine.posterior
    if isinstance(posterior.log_likelihood.callable, Likelihood):
        return  # ours do not
    if not posterior.prior.linear:
        return  # the directions of the prior are not known
    looked_at = _innocent.setdefault(posterior.prior, set())
    if (identity := engine.identity) in looked_at:
        return
    if not _bends_like_the_prior(engine, posterior.prior.noise_size, seconds):
        if identity is not None:
            looked_at.add(identity)
    else:
        warn(
            "the log-likelihood seems to contain the log-density of the prior as well: in several directions it "
            "bends as the prior does. The prior would count twice. Pass the likelihood alone. (If it is alone, your "
            "data tell exactly as much as the prior does, and all is well.)"
        )


class _Bend(NamedTuple):
    """How a log-likelihood runs along one direction: up - 2 middle + down, and half of up - down."""

    bend: float
    slope: float
    rounding: float

    @property
    def is_one(self) -> bool:
        """Whether it bends as a log-prior does, by 1 to the digit. Where values are huge nobody can say."""
        return self.rounding < 0.01 and abs(self.bend + 1) < 1e-3 + self.rounding


def _bends_like_the_prior(engine: Engine, size: int, seconds: float) -> bool:
    """Look along unit directions of the standard normals behind a draw.

    There the log-prior is the parabola -z^2/2, however wide or narrow the prior is. What data say bends less the
    narrower the prior is, and not at all where the likelihood has become flat. So directions of very different width
    that all bend by about 1, or several that bend by exactly 1 about the prior's mean, are the prior's own; and so are
    those that bend by more than 1 near the mean and by exactly 1 far away from it. Where the data speak loudly in every
    direction this cannot be seen, nor can the prior of one latent among several; and data that tell just as much as the
    prior in every direction look like it. Only compiled functions are asked so far out: a simulator might never come
    back.
    """
    directions, steps = _directions(engine.posterior, size)
    order = np.argsort(np.linalg.norm(steps, axis=1))  # the narrowest first
    directions, steps = directions[order], steps[order]
    widths = np.linalg.norm(steps, axis=1)
    look = _Look(engine, steps, seconds)
    rng = np.random.default_rng(0)
    at_the_mean: list[_Bend] = []
    for scale in (0.0, 4.0, -4.0):
        z = scale * rng.standard_normal(size)
        bends = look(z)
        at_the_mean = at_the_mean or bends
        centred = [abs(bend.slope + directions[i] @ z) for i, bend in enumerate(bends)]
        exact = [bend.is_one and off < 0.02 for bend, off in zip(bends, centred, strict=True)]
        about = [width for bend, width in zip(bends, widths, strict=False) if -1.1 < bend.bend < -0.98]
        if bends and sum(exact) >= min(3, len(bends)):
            return True
        if len(about) >= max(3, len(bends) // 3) and max(about) > 2 * min(about):
            return True
    for scale in (1000.0, -1000.0) if engine.name != "host" else ():
        bends = look(scale * np.abs(rng.standard_normal(size)))  # all one way: counts and rates become flat together
        only_far_out = [far.is_one and near.bend < -1.01 for far, near in zip(bends, at_the_mean, strict=False)]
        if bends and sum(only_far_out) >= min(3, len(bends)):
            return True
    return False


class _Look:
    """Looks along the directions around a point, as many as there is time for."""

    def __init__(self, engine: Engine, steps: np.ndarray, seconds: float):
        self._posterior, self._evaluate, self._steps = engine.posterior, _forgiving(engine.evaluate), steps
        self._seconds, self._began = seconds, time.perf_counter()

    def __call__(self, z: np.ndarray) -> list[_Bend]:
        bends: list[_Bend] = []
        if self._late(1):
            return bends
        base = _color(self._posterior, z[None])[0]
        middle = self._evaluate(base)
        if self._late(2):
            return bends  # too slow to ask so often
        for step in self._steps:
            up, down = self._evaluate(base + step), self._evaluate(base - step)
            rounding = 1e-12 * (abs(up) + abs(middle) + abs(down))
            bends.append(_Bend(up - 2 * middle + down, (up - down) / 2, rounding))
            if len(bends) >= 3 and self._late(1):
                break
        return bends

    def _late(self, times: int) -> bool:
        return time.perf_counter() - self._began > times * self._seconds


def _forgiving(evaluate: Evaluate) -> Evaluate:
    """NaN where the likelihood raises or warns: these are points where no chain need ever go."""

    def forgiven(f: np.ndarray) -> float:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                return evaluate(f)
            except Exception:  # noqa: BLE001
                return math.nan

    return forgiven


def _directions(posterior: Posterior, size: int) -> tuple[np.ndarray, np.ndarray]:
    """At most 24 unit directions of the normals, from the narrowest to the widest, and where they lead."""
    if size <= 512:
        left, _, _ = np.linalg.svd(_color(posterior, np.eye(size)), full_matrices=False)
        directions = left.T[np.unique(np.linspace(0, len(left.T) - 1, 24).astype(int))]
    else:
        axes = np.unique(np.linspace(0, size - 1, 24).astype(int))
        directions = np.zeros((len(axes), size))
        directions[np.arange(len(axes)), axes] = 1.0
    return directions, _color(posterior, directions)


def _color(posterior: Posterior, z: np.ndarray) -> np.ndarray:
    return np.asarray(posterior.prior.color(z))

"""Two mistakes that run without an error and give wrong answers: noticed before the run, and named."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable

import numpy as np

from ellipslice.engines.base import Engine
from ellipslice.likelihoods import Likelihood
from ellipslice.posterior import Posterior
from ellipslice.sampling.warn import warn

Evaluate = Callable[[np.ndarray], float]


def warn_if_random(before: float, after: float, when: str) -> bool:
    """The same f must give the same value; whether it did not."""
    random = not abs(before - after) <= 1e-7 * (1 + abs(before))
    if random:
        warn(
            f"the log-likelihood is not a function of f alone: at the same f it gave {before:.8g} and {when} "
            f"{after:.8g}. The draws will be wrong. Look for random numbers, mini-batches or data that change."
        )
    return random


def warn_if_prior_inside(engine: Engine, seconds: float = 1.0) -> None:
    """Warn if the log-likelihood seems to contain the log-prior as well, which would then count twice."""
    posterior = engine.posterior
    if isinstance(posterior.log_likelihood.callable, Likelihood):
        return  # ours do not
    try:
        size = posterior.prior.noise_size
    except TypeError:
        return  # a prior that draws by itself does not say what its directions are
    if _bends_like_the_prior(engine, size, seconds):
        warn(
            "the log-likelihood seems to contain the log-density of the prior as well: in several directions it "
            "bends exactly as the prior does. The prior would count twice. Pass the likelihood alone."
        )


def _bends_like_the_prior(engine: Engine, size: int, seconds: float) -> bool:
    """Look along unit directions of the standard normals behind a draw.

    There the log-prior is the parabola -z^2/2, however wide or narrow the prior is. What data say bends less the
    narrower the prior is, and not at all where the likelihood has become flat. So directions of very different width
    that all bend by 1, or several that bend by exactly 1 about the prior's mean, are the prior's own; and so are those
    that bend by more than 1 near the mean and by exactly 1 far away from it. Where the data speak loudly in every
    direction this cannot be seen. Only compiled functions are asked so far out: a simulator might never come back.
    """
    evaluate, rng, began = _forgiving(engine.evaluate), np.random.default_rng(0), time.perf_counter()
    directions, steps = _directions(engine.posterior, size)
    widths = np.linalg.norm(steps, axis=1)
    at_the_mean: dict[int, float] = {}
    for scale in (0.0, 4.0, -4.0) + ((1000.0, -1000.0) if engine.name == "compiled" else ()):
        z = scale * rng.standard_normal(size)
        far = abs(scale) > 4
        if far:
            z = math.copysign(1.0, scale) * np.abs(z)  # all one way, where counts and rates become flat together
        base = _color(engine.posterior, z[None])[0]
        middle = evaluate(base)
        if time.perf_counter() - began > 2 * seconds:
            return False  # too slow to ask so often
        exactly, about = [], []
        for count, i in enumerate(np.argsort(widths), start=1):
            up, down = evaluate(base + steps[i]), evaluate(base - steps[i])
            slope, bend = (up - down) / 2, up - 2 * middle + down
            rounding = 1e-12 * (abs(up) + abs(middle) + abs(down))
            by_one = abs(bend + 1) < 1e-3 + rounding
            at_the_mean.setdefault(i, bend)
            if far:
                exactly.append(by_one and at_the_mean[i] < -1.01)
            else:
                exactly.append(by_one and abs(slope + float(directions[i] @ z)) < 0.02)
                if -1.1 < bend < -0.98:
                    about.append(widths[i])
            if count >= 3 and time.perf_counter() - began > seconds:
                break
        if sum(exactly) >= min(3, len(exactly)) or (len(about) >= 3 and max(about) > 3 * min(about)):
            return True
        if time.perf_counter() - began > seconds:
            return False
    return False


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
        directions = np.eye(1, size)[[0] * len(axes)]
        directions = np.stack([np.roll(row, axis) for row, axis in zip(directions, axes, strict=True)])
    return directions, _color(posterior, directions)


def _color(posterior: Posterior, z: np.ndarray) -> np.ndarray:
    return np.asarray(posterior.prior.color(z))

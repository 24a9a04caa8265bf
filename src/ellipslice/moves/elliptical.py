"""Elliptical slice sampling: Figure 2 of Murray, Adams & MacKay (2010), step by step.

1. Choose ellipse: nu ~ N(0, Sigma)                       drawn beforehand (noise.py), and handed in
2. log y = log L(f) + log u                               likewise: log u is minus an exponential
3. theta ~ Uniform[0, 2 pi], bracket [theta - 2 pi, theta]   `begin`
4. f' = f cos(theta) + nu sin(theta)                         `weights`
5. if log L(f') > log y: 6. accept, return f'             the loop, `search.search`
7. else: 8. if theta < 0: theta_min = theta, else: theta_max = theta   `shrink`
9. theta ~ Uniform[theta_min, theta_max]; 10. go to 4        `propose`
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import Any, Literal

import numpy as np

from ellipslice.moves.arithmetic import cos_sin, where
from ellipslice.moves.base import Info, State
from ellipslice.moves.search import Search, search
from ellipslice.priors.base import as_numbers

FULL_TURN = 2 * pi


@dataclass(frozen=True)
class EllipticalSlice(Search):
    """Elliptical slice sampling, the default move: no free parameters, no rejections, no gradients.

    Poor when the likelihood is much stronger than the prior, or when the prior has a large constant offset (Section
    2.5): then the bracket shrinks far and the state moves little.

    Parameters
    ----------
    bracket_width : float
        Width of the first bracket, at most 2 pi. Narrower ones, placed at random around the current state (Section
        2.4), save evaluations where only small angles are ever accepted: "around two times" on small problems.
    shrinking : {"cut", "halve"}
        "cut" is Figure 2: the bracket ends at the rejected angle. "halve" keeps the half of the bracket that holds the
        current state, whatever angle was rejected: the more aggressive shrinking of Skilling & MacKay (2003).

    Notes
    -----
    Why every variant is valid. Equation (12) asks that the angles of a move from f to f' be as probable as those of the
    move back. The bracket is placed uniformly at random around the current state, so the same bracket is as probable
    from f as from f', which lies in it too. It then shrinks by a rule that depends on where the current state is only
    through the side to keep. For "cut" that side holds the current state; for "halve" that half does. f' was found in
    what was kept, so the way back, which keeps the side that holds f', keeps the same one, and draws the same angles
    from the same brackets with the same probabilities. `testing.check_move` replays this in exact arithmetic.

    Examples
    --------
    >>> EllipticalSlice(bracket_width=1.5, shrinking="halve")
    EllipticalSlice(bracket_width=1.5, shrinking='halve')
    """

    bracket_width: float = FULL_TURN
    shrinking: Literal["cut", "halve"] = "cut"

    def __post_init__(self) -> None:
        if not isinstance(self.bracket_width, int | float | np.integer | np.floating):
            raise TypeError(f"bracket_width must be a number, but it is {self.bracket_width!r}.")
        if not 0 < self.bracket_width <= FULL_TURN:
            raise ValueError(f"bracket_width must lie in (0, 2 pi], but it is {self.bracket_width}.")
        if self.shrinking not in ("cut", "halve"):
            raise ValueError(f'shrinking must be "cut" or "halve", but it is {self.shrinking!r}.')

    def begin(self, here: Any, place: Any, u: Any) -> tuple[Any, Any, Any]:
        width = self.bracket_width
        if width == FULL_TURN:  # step 3: the first proposal is both ends of the bracket
            theta = width * u
            return theta, theta - width, theta
        theta_min = -width * place  # Section 2.4: the ends of a narrower bracket are not tried
        return theta_min + width * u, theta_min, theta_min + width

    def weights(self, theta: Any) -> tuple[Any, Any]:
        return cos_sin(theta)  # step 4

    def shrink(self, theta: Any, theta_min: Any, theta_max: Any, here: Any) -> tuple[Any, Any]:
        if self.shrinking == "cut":
            return super().shrink(theta, theta_min, theta_max, here)  # step 8
        middle = (theta_min + theta_max) / 2
        return where(middle < here, middle, theta_min), where(middle < here, theta_max, middle)


def step(
    f: Any,
    nu: Any,
    log_likelihood: Callable[[Any], float],
    *,
    rng: np.random.Generator,
    log_likelihood_f: float | None = None,
    bracket_width: float = FULL_TURN,
) -> tuple[np.ndarray, float, Info]:
    """One update of elliptical slice sampling, for your own Gibbs loop.

    Parameters
    ----------
    f : array of any shape
        The current state. If your prior has a mean, subtract it: f - mean ~ N(0, Sigma).
    nu : array of the same shape
        A fresh draw from N(0, Sigma), the mean left out.
    log_likelihood : callable
        f -> float. The likelihood alone, without the prior.
    rng : numpy.random.Generator
    log_likelihood_f : float, optional
        log_likelihood(f), if known from the last update (its second return value): saves an evaluation. Leave it out if
        anything the likelihood depends on has changed since.
    bracket_width : float
        See `EllipticalSlice`.

    Returns
    -------
    f : array
        The new state.
    log_likelihood_f : float
        Its log-likelihood.
    info : Info
        Evaluations, NaNs, whether the search was given up, and the angle.

    Examples
    --------
    A prior N(0, 1) and one observation, 1.0 with standard deviation 0.5: the posterior is N(0.8, 0.2).

    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> f, log_l, draws = np.zeros(1), None, []
    >>> for _ in range(5000):
    ...     nu = rng.standard_normal(1)
    ...     f, log_l, info = step(f, nu, lambda f: -2 * (f[0] - 1) ** 2, rng=rng, log_likelihood_f=log_l)
    ...     draws.append(f[0])
    >>> bool(abs(np.mean(draws) - 0.8) < 0.05)
    True
    """
    if not callable(log_likelihood):
        raise TypeError(f"log_likelihood must be callable, but it is a {type(log_likelihood).__name__}.")
    f, nu = as_numbers(f, "f"), as_numbers(nu, "nu")
    if f.shape != nu.shape:
        raise ValueError(f"f has shape {f.shape} and nu has shape {nu.shape}; nu must be a prior draw of f's shape.")
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng must be a numpy Generator, but it is a {type(rng).__name__}. Make one before the loop, with "
            "rng = numpy.random.default_rng(seed): a new one for every step would repeat the same noise."
        )

    def evaluate(f: Any) -> float:
        value = log_likelihood(np.array(f))  # a copy: a function that works in place must not change the state
        number = np.asarray(value)
        if number.shape != () or number.dtype.kind not in "fiu":
            what = f"an array of shape {number.shape}" if number.shape else f"{value!r}, a {type(value).__name__}"
            raise TypeError(
                f"log_likelihood must return one real number, but it returned {what}. Sum over the observations, and "
                "take the logarithm."
            )
        return float(value)

    value = evaluate(f) if log_likelihood_f is None else float(log_likelihood_f)
    if not np.isfinite(value):
        raise ValueError(
            f"the log-likelihood of the current state is {value}; it must be finite. Start where the "
            "likelihood is not zero."
        )
    move = EllipticalSlice(bracket_width)
    level = rng.standard_exponential()
    state, info = search(move, nu, level, lambda k: rng.random(), State(f, value), evaluate)
    if info.stuck:
        warnings.warn(
            "the search found no acceptable point and stayed where it was. Is log_likelihood_f stale? Leave it out "
            "when anything that the likelihood depends on has changed since.",
            stacklevel=2,
        )
    if state.log_likelihood == np.inf:
        raise ValueError(
            "the log-likelihood is +inf at the new state; a likelihood must be bounded where it is sampled."
        )
    return np.asarray(state.f), state.log_likelihood, info

"""Elliptical slice sampling: Figure 2 of Murray, Adams & MacKay (2010), step by step.

1. Choose ellipse: nu ~ N(0, Sigma)                       drawn before the update (noise.py)
2. log y = log L(f) + log u                               so is log u, minus an exponential
3. theta ~ Uniform[0, 2 pi], bracket [theta - 2 pi, theta]   `begin`
4. f' = f cos(theta) + nu sin(theta)                         `weights`
5. if log L(f') > log y: 6. accept, return f'             the loop
7. else: 8. if theta < 0: theta_min = theta, else: theta_max = theta   `shrink`
9. theta ~ Uniform[theta_min, theta_max]; 10. go to 4        `propose`

The loop is the same for every slice search, and is in `search.py`. With u_0, u_1, ... uniform on [0, 1), it is

    log_y = log_likelihood - level
    theta, theta_min, theta_max = move.begin(here, u_0, u_1)
    for k in 2, 3, ...:
        w_a, w_b = move.weights(theta)
        proposal = f * w_a + nu * w_b
        if log L(proposal) > log_y:
            return proposal
        theta_min, theta_max = move.shrink(theta, theta_min, theta_max, here)
        theta = move.propose(theta_min, theta_max, u_k)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any, Literal

from ellipslice.checks import number
from ellipslice.moves.array_ops import cos_sin, rounded, where
from ellipslice.moves.search import Path, Search

FULL_TURN = 2 * pi


@dataclass(frozen=True)
class EllipticalPath(Path):
    """The ellipse of Figure 2, with a first bracket of any width; see `EllipticalSlice`."""

    bracket_width: float = FULL_TURN
    shrinking: Literal["cut", "halve", "other_half"] = "cut"

    def __post_init__(self) -> None:
        number("bracket_width", self.bracket_width, above=0, most=FULL_TURN, expected="in (0, 2 pi]")
        if self.shrinking not in ("cut", "halve", "other_half"):
            raise ValueError(f'shrinking must be "cut", "halve" or "other_half", but it is {self.shrinking!r}.')

    def begin(self, here: Any, place: Any, u: Any) -> tuple[Any, Any, Any]:
        width = self.bracket_width
        if self.shrinking == "other_half":
            theta_min = rounded(-width * place)
            theta_max = theta_min + width
            return self.propose(theta_min, theta_max, u), theta_min, theta_max
        if width == FULL_TURN:  # step 3: the first proposal is both ends of the bracket
            theta = rounded(width * u)
            return theta, theta - width, theta
        theta_min = rounded(-width * place)  # Section 2.4: the ends of a narrower bracket are not tried
        return theta_min + rounded(width * u), theta_min, theta_min + width

    def weights(self, theta: Any) -> tuple[Any, Any]:
        return cos_sin(theta)  # step 4

    def shrink(self, theta: Any, theta_min: Any, theta_max: Any, here: Any) -> tuple[Any, Any]:
        if self.shrinking == "cut":
            return super().shrink(theta, theta_min, theta_max, here)  # step 8
        middle = (theta_min + theta_max) / 2
        return where(middle < here, middle, theta_min), where(middle < here, theta_max, middle)

    def propose(self, theta_min: Any, theta_max: Any, u: Any) -> Any:
        if self.shrinking != "other_half":
            return super().propose(theta_min, theta_max, u)
        middle = (theta_min + theta_max) / 2
        return where(middle < 0, theta_min, middle) + rounded(u * ((theta_max - theta_min) / 2))


@dataclass(frozen=True)
class EllipticalSlice(EllipticalPath, Search):
    """Elliptical slice sampling, the default move: no free parameters, no rejections, no gradients.

    It mixes slowly if the likelihood is much more informative than the prior, or if the prior includes an additive
    constant of large variance (Section 2.5). The bracket then shrinks far, and accepted angles are small.

    Parameters
    ----------
    bracket_width : float
        Width of the first bracket, in radians. In (0, 2 pi]. Default: 2 pi. A narrower bracket, placed at random around
        the current state, saves evaluations if only small angles are accepted. Section 2.4 of the paper reports up to
        twice the effective samples per second on small problems, and "only small improvements" on large ones.
    shrinking : {"cut", "halve", "other_half"}
        "cut" is Figure 2: the bracket ends at the rejected angle. "halve" keeps the half of the bracket that contains
        the current state, for any rejected angle, as Skilling & MacKay (2003). "other_half" keeps the same half, and
        draws each proposal from the half that does not contain the current state. Default: "cut".

    Raises
    ------
    TypeError
        If `bracket_width` is not a number.
    ValueError
        If `bracket_width` is not in (0, 2 pi], or `shrinking` is another word.

    Notes
    -----
    An update costs one draw from the prior, and O(N) and one evaluation per proposal.

    Why every variant is valid: equation (12) requires that the angles of a move from f to f' are as probable as those
    of the reverse move. The bracket is placed uniformly at random around the current state, so it is as probable from f
    as from f', which it also contains. It then shrinks by a rule in which the current state only decides which side is
    kept. That side contains the current state. It also contains f', which is found later. So the reverse move, which
    keeps the side with f', keeps the same sides, and draws the same angles from the same brackets with the same
    probabilities. For "other_half", the two ends of a move are in the two halves of the last bracket, which are of the
    same length. `testing.check_move` replays this in exact arithmetic.

    On the problems R01, R10 and Mine of the paper, "other_half" gave 1.12, 1.51 and 1.20 times the effective samples
    per evaluation of "cut", and `bracket_width=1` gave 1.11, 2.46 and 1.54 times (`benchmarks/slice_variants.py`).
    Proposals of "other_half" are further from the current state, and the bracket is halved by each rejection.

    Examples
    --------
    >>> EllipticalSlice(bracket_width=1.5, shrinking="halve")
    EllipticalSlice(bracket_width=1.5, shrinking='halve')
    """

    stored_as = "EllipticalSlice"

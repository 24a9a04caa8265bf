"""The auxiliary-variable algorithm that precedes elliptical slice sampling: Figure 1 of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any

from ellipslice.checks import is_number, number
from ellipslice.moves.array_ops import angle_of, cos_sin, rounded
from ellipslice.moves.search import Search

LARGEST_CONCENTRATION = 0.999
"""Above it, proposals would be too close to the current state to be useful, and rounding errors would matter."""


@dataclass(frozen=True)
class AuxiliaryEllipse(Search):
    """The algorithm of Figure 1: represent f as nu_0 sin(theta) + nu_1 cos(theta), and slice sample theta on [0, 2 pi].

    It is meant for teaching, for tests and for comparisons. With the uniform density of theta it differs from
    `EllipticalSlice` only in that the end of the first bracket is not tried (Section 2.4). That saves one evaluation if
    large angles are rejected, but misses those that would be accepted.

    Parameters
    ----------
    concentration : float
        Concentration of the density p(theta): the mean of -cos(theta). In [0, 0.999]. Default: 0, the uniform density
        of Figure 1. Above 0, p is the wrapped Cauchy density around pi, as suggested in Section 2.4 of the paper. The
        first proposal then makes an angle with the current state whose mean cosine is the square of `concentration`.

    Raises
    ------
    TypeError
        If `concentration` is not a number.
    ValueError
        If `concentration` is not in [0, 0.999].

    Notes
    -----
    Why every density is valid: nu_0 sin(theta) + nu_1 cos(theta) is a draw from N(0, Sigma) for each theta, so f and
    theta are independent a priori. Step 1 therefore draws theta from p, and nu_0 and nu_1 given f as before. The
    likelihood only depends on f, so it cancels. Given nu_0 and nu_1, theta has the density p(theta) L(f(theta)). Step 2
    slice samples it in the coordinate 2 pi F(theta), where F is the distribution function of p. The factor p is the
    derivative of F, so the density in this coordinate is L alone, and each proposal is a draw from p in the bracket.
    No symmetry of p is needed. A different mean direction would only rotate nu_0 and nu_1, so it is not an option.

    Only angles relative to the current state matter. Their density, before rejections, is that of the difference of two
    draws from p, which is highest at 0. So p cannot prefer moves near pi/2 to small ones.

    On the problems R01, R10 and Mine of the paper, a concentration of 0.9 gave 1.17, 2.05 and 1.36 times the effective
    samples per evaluation of `EllipticalSlice()`. `EllipticalSlice(bracket_width=1.0)` gave 1.11, 2.46 and 1.54 times.
    With 0.6 the ratios are 1.01, 1.42 and 1.15, and with 0.97 they are 0.78, 2.54 and 1.00. These are single runs of
    `benchmarks/slice_variants.py`; R10 is the least certain. So a density is not better than a narrow bracket, and it
    must be tuned, too.

    The statistic `angle` is in radians.

    Examples
    --------
    >>> AuxiliaryEllipse(concentration=0.5)
    AuxiliaryEllipse(concentration=0.5)
    """

    stored_as = "AuxiliaryEllipse"

    concentration: float = 0.0

    def __post_init__(self) -> None:
        if self.concentration != 0 or not is_number(self.concentration):
            number("concentration", self.concentration, above=0, most=LARGEST_CONCENTRATION, expected="in [0, 0.999]")

    def here(self, place: Any) -> Any:
        return 2 * pi * place  # step 1: theta ~ p(theta), in the coordinate 2 pi F(theta)

    def curve(self, f: Any, nu: Any, here: Any) -> tuple[Any, Any]:
        sin, cos = self.weights(here)
        nu_0 = f * sin + nu * cos
        nu_1 = f * cos - nu * sin
        return nu_0, nu_1

    def begin(self, here: Any, place: Any, u: Any) -> tuple[Any, Any, Any]:
        return 2 * pi * u, 0.0, 2 * pi  # step 2: the bracket is the whole range

    def weights(self, theta: Any) -> tuple[Any, Any]:
        if self.concentration == 0:
            cos, sin = cos_sin(theta)
            return sin, cos  # step 3: f' = nu_0 sin(theta) + nu_1 cos(theta)
        cos, sin = self._half_angle(theta)
        square, other = rounded(cos * cos), rounded(sin * sin)
        total = square + other
        return 2 * cos * sin / total, (square - other) / total

    def angle(self, here: Any, theta: Any) -> Any:
        if self.concentration == 0:
            return theta - here
        return 2 * (angle_of(*self._half_angle(theta)) - angle_of(*self._half_angle(here)))

    def _half_angle(self, position: Any) -> tuple[Any, Any]:
        """Return multiples of cos(theta / 2) and sin(theta / 2), where 2 pi F(theta) is the position.

        If F is the wrapped Cauchy distribution, then tan(theta / 2) is a multiple of tan(position / 2).
        """
        cos, sin = cos_sin(position / 2)
        return (1 - self.concentration) * cos, (1 + self.concentration) * sin

"""The auxiliary-variable algorithm that precedes elliptical slice sampling: Figure 1 of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any

from ellipslice.moves.array_ops import cos_sin
from ellipslice.moves.search import Search


@dataclass(frozen=True)
class AuxiliaryEllipse(Search):
    """The algorithm of Figure 1: represent f as nu_0 sin(theta) + nu_1 cos(theta), and slice sample theta on [0, 2 pi].

    It is meant for teaching and for tests. It differs from `EllipticalSlice` only in that the end of the first bracket
    is not tried (Section 2.4). That saves one evaluation if large angles are rejected, but misses those that would be
    accepted.
    """

    stored_as = "AuxiliaryEllipse"

    def here(self, place: Any) -> Any:
        return 2 * pi * place  # step 1: theta ~ Uniform[0, 2 pi]

    def curve(self, f: Any, nu: Any, here: Any) -> tuple[Any, Any]:
        cos, sin = cos_sin(here)
        nu_0 = f * sin + nu * cos
        nu_1 = f * cos - nu * sin
        return nu_0, nu_1

    def begin(self, here: Any, place: Any, u: Any) -> tuple[Any, Any, Any]:
        return 2 * pi * u, 0.0, 2 * pi  # step 2: the bracket is the whole range

    def weights(self, theta: Any) -> tuple[Any, Any]:
        cos, sin = cos_sin(theta)
        return sin, cos  # step 3: f' = nu_0 sin(theta) + nu_1 cos(theta)

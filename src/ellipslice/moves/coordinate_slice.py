"""Slice sampling one value at a time: the simple updates that Section 3.1 of the paper begins with."""

from __future__ import annotations

from dataclasses import dataclass

from ellipslice.moves.axis import Axis, OneAtATime
from ellipslice.moves.base import Info, State, Target
from ellipslice.moves.line import Line, LineSlice
from ellipslice.moves.straight import PriorOnLine
from ellipslice.noise import Noise


class CoordinateSlice(OneAtATime):
    """Slice sample each value given all others, in turn; one update is one sweep over them.

    For comparisons: "applying these directly to f would suffer the same slow convergence problems as Gibbs sampling"
    (Section 3.1), for a value held by its neighbours moves little. A sweep costs several evaluations of the whole
    likelihood for each value. To update a few latents apart from others use `Local`.

    Parameters
    ----------
    width : float
        Of the bracket, placed at random around the current value and not stepped out (Neal 2003), in units of the
        value's prior deviation given the others. The default reaches three to either side, on average.

    Notes
    -----
    Needs a prior with `condition`, and values that the others do not determine: smooth kernels on dense grids are
    refused. Statistics are those of `Local`.

    Examples
    --------
    >>> CoordinateSlice()
    CoordinateSlice(width=6.0)
    """

    stored_as = "CoordinateSlice"

    def __init__(self, width: float = 6.0):
        super().__init__(SliceAlongAxis(LineSlice(width).width))


@dataclass(frozen=True)
class SliceAlongAxis(Axis):
    """The slice search for one value, of prior N(0, deviation^2)."""

    stored_as = "SliceAlongAxis"

    width: float

    def __repr__(self) -> str:
        return f"CoordinateSlice(width={self.width})"

    def step(self, noise: Noise, state: State, target: Target) -> tuple[State, Info]:
        """Search along state.f + w deviation."""
        deviation = noise.nu[1]
        line = Line(self.width, PriorOnLine((state.f / deviation).sum(), 1.0))
        return target.search(line, Noise(deviation, noise.level[0], noise.uniforms[0]), state)

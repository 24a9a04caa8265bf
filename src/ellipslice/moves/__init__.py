"""Moves: Markov transitions that leave N(f; 0, Sigma) L(f) invariant, one per file.

To add one, write a file with a frozen dataclass derived from `Search` (if it slice samples along a curve) or `Move`,
import it and add it to `REGISTERED` here, and add an instance to `tests/catalogue.py`. `ellipslice.testing.check_move`
checks that it is valid.

- `base`: the interface of a move
- `search`: paths, searches, and the reference loop
- `array_ops`: array operations for floats, NumPy, JAX and exact fractions
- `step`: one update for a Gibbs loop of the user
- `elliptical`: elliptical slice sampling, Figure 2
- `auxiliary`: Figure 1
- `constrained`: under linear constraints
- `constrained_arcs`: the allowed arcs of an ellipse
- `reference_slice`: around a reference Gaussian
- `cycle`: several moves in turn
- `local`: blocks of values given the rest
- `local_blocks`: which values are in a block
- `local_groups`: blocks of the same shapes, stacked
- `local_reach`: whether blocks together move everything
- `metropolis`: Neal's move and the random walk
- `line`: slice sampling along a line
- `one_at_a_time`: one value at a time: slice sampling and Gibbs sampling
- `control_variables`: control variables
- `control_inputs`: where control variables should be
- `control_conditionals`: the joint Gaussian of f and its control variables
- `hamiltonian`: HMC and NUTS, by BlackJAX
"""

from ellipslice.moves import control_conditionals, local_blocks, one_at_a_time
from ellipslice.moves.auxiliary import AuxiliaryEllipse
from ellipslice.moves.base import Info, Move, State
from ellipslice.moves.constrained import ConstrainedSlice
from ellipslice.moves.control_variables import ControlVariables
from ellipslice.moves.cycle import Cycle
from ellipslice.moves.elliptical import EllipticalSlice
from ellipslice.moves.hamiltonian import Hamiltonian
from ellipslice.moves.line import LineSlice
from ellipslice.moves.local import Local
from ellipslice.moves.metropolis import NealMetropolis, RandomWalk
from ellipslice.moves.one_at_a_time import CoordinateGibbs, CoordinateSlice
from ellipslice.moves.reference_slice import ReferenceSlice
from ellipslice.moves.search import Path, Search
from ellipslice.moves.step import step

__all__ = [
    "AuxiliaryEllipse",
    "ConstrainedSlice",
    "ControlVariables",
    "CoordinateGibbs",
    "CoordinateSlice",
    "Cycle",
    "EllipticalSlice",
    "Hamiltonian",
    "Info",
    "LineSlice",
    "Local",
    "Move",
    "NealMetropolis",
    "Path",
    "RandomWalk",
    "ReferenceSlice",
    "Search",
    "State",
    "step",
]

REGISTERED = (
    *(EllipticalSlice, ReferenceSlice, ConstrainedSlice, AuxiliaryEllipse, Local, Cycle, NealMetropolis, RandomWalk),
    *(LineSlice, ControlVariables, CoordinateSlice, CoordinateGibbs, Hamiltonian),
)
"""Every move, for stores, the reference pages and the catalogue of the tests."""

STORED_PARTS = (
    *(local_blocks.ExplicitBlocks, local_blocks.Names, local_blocks.Contiguous, local_blocks.Random),
    *(one_at_a_time.SliceAlongAxis, one_at_a_time.ParabolaAlongAxis, control_conditionals.AtValues),
)
"""Classes of which instances are stored inside a move."""

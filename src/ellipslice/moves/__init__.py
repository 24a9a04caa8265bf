"""Moves: Markov transitions that leave N(f; 0, Sigma) L(f) invariant, one per file.

To add one, write a file with a frozen dataclass derived from `Search` (if it slice samples along a curve) or `Move`,
import it and add it to `REGISTERED` here, and add an instance to `tests/catalogue.py`. `ellipslice.testing.check_move`
checks that it is valid.
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
from ellipslice.moves.one_at_a_time import CoordinateSlice, Gibbs
from ellipslice.moves.recentred import Recentred
from ellipslice.moves.search import Path, Search
from ellipslice.moves.step import step

__all__ = [
    "AuxiliaryEllipse",
    "ConstrainedSlice",
    "ControlVariables",
    "CoordinateSlice",
    "Cycle",
    "EllipticalSlice",
    "Gibbs",
    "Hamiltonian",
    "Info",
    "LineSlice",
    "Local",
    "Move",
    "NealMetropolis",
    "Path",
    "RandomWalk",
    "Recentred",
    "Search",
    "State",
    "step",
]

REGISTERED = (
    *(EllipticalSlice, Recentred, ConstrainedSlice, AuxiliaryEllipse, Local, Cycle, NealMetropolis, RandomWalk),
    *(LineSlice, ControlVariables, CoordinateSlice, Gibbs, Hamiltonian),
)
"""Every move, for stores, the reference pages and the catalogue of the tests."""

STORED_PARTS = (
    *(local_blocks.Given, local_blocks.Names, local_blocks.Contiguous, local_blocks.Random),
    *(one_at_a_time.SliceAlongAxis, one_at_a_time.ParabolaAlongAxis, control_conditionals.AtValues),
)
"""Classes of which instances are stored inside a move."""

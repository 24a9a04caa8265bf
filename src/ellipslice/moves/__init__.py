"""Moves: Markov transitions that leave N(f; 0, Sigma) L(f) invariant, one per file.

To add one, write a file with a frozen dataclass derived from `Search` (if it slice samples along a curve) or `Move`,
name it here and in `tests/catalogue.py`, and `ellipslice.testing.check_move` tells you whether it is valid.
"""

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

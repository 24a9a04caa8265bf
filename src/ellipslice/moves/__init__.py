"""Moves: Markov transitions that leave N(f; 0, Sigma) L(f) invariant, one per file.

To add one, write a file with a frozen dataclass derived from `Search` (if it slice samples along a curve) or `Move`,
import it and add it to `REGISTERED` here, and add an instance to `tests/catalogue.py`. `ellipslice.testing.check_move`
checks that it is valid.
"""

from ellipslice.moves import blocks, control_variables, coordinate_slice, gibbs
from ellipslice.moves.auxiliary import AuxiliaryEllipse
from ellipslice.moves.base import Info, Move, State
from ellipslice.moves.constrained import ConstrainedSlice
from ellipslice.moves.control_variables import ControlVariables
from ellipslice.moves.coordinate_slice import CoordinateSlice
from ellipslice.moves.cycle import Cycle
from ellipslice.moves.elliptical import EllipticalSlice
from ellipslice.moves.gibbs import Gibbs
from ellipslice.moves.hamiltonian import Hamiltonian
from ellipslice.moves.line import LineSlice
from ellipslice.moves.local import Local
from ellipslice.moves.neal import NealMetropolis
from ellipslice.moves.random_walk import RandomWalk
from ellipslice.moves.recentred import Recentred
from ellipslice.moves.search import Search
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
    *(blocks.Given, blocks.Names, blocks.Contiguous, blocks.Random),
    *(coordinate_slice.SliceAlongAxis, gibbs.ParabolaAlongAxis, control_variables._AtValues),
)
"""Classes of which instances are stored inside a move."""

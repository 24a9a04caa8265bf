"""Moves: Markov transitions that leave N(f; 0, Sigma) L(f) invariant, one family per file.

To add one, write a file with a frozen dataclass derived from `Search` (if it slice samples along a curve) or `Move`,
import it and add it to `REGISTERED` here, and add an instance to `tests/catalogue.py`. `ellipslice.testing.check_move`
checks that it is valid.

- `base`: the interface of a move
- `search`: paths, moves that are one slice search, and the reference loop
- `array_ops`: array operations for floats, NumPy, JAX and exact fractions
- `step`: one update, for the user's own Gibbs loop
- `elliptical`: elliptical slice sampling, Figure 2 of the paper
- `auxiliary`: the auxiliary-variable algorithm, Figure 1 of the paper
- `constrained`: elliptical slice sampling under linear inequalities
- `constrained_arcs`: the arcs of an ellipse that satisfy linear inequalities
- `reference_slice`: elliptical slice sampling around a reference Gaussian
- `split_hamiltonian`: rotations around a reference Gaussian, with kicks by the gradient
- `covariances`: products with the covariance of a reference or of the prior
- `cycle`: several moves in turn
- `local`: block updates, each block given the rest
- `local_blocks`: partitions of the elements into blocks
- `local_conditionals`: the conditional distributions of blocks
- `local_groups`: blocks of the same shapes, stacked for compiled code
- `local_reach`: whether block updates can change every direction of the prior
- `metropolis`: Neal's Metropolis move (pCN) and the random walk
- `line`: slice sampling along a line
- `one_at_a_time`: one element at a time, by slice sampling or Gibbs sampling
- `control_variables`: control variables
- `control_inputs`: optimal inputs of control variables
- `control_conditionals`: the joint Gaussian of f and its control variables
- `hamiltonian`: Hamiltonian Monte Carlo and NUTS, by BlackJAX
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
from ellipslice.moves.split_hamiltonian import SplitHamiltonian
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
    "SplitHamiltonian",
    "State",
    "step",
]

REGISTERED = (
    *(EllipticalSlice, ReferenceSlice, SplitHamiltonian, ConstrainedSlice, AuxiliaryEllipse, Local, Cycle),
    *(NealMetropolis, RandomWalk, LineSlice, ControlVariables, CoordinateSlice, CoordinateGibbs, Hamiltonian),
)
"""Every move class. Stores, the reference pages and the catalogue of the tests read it."""

STORED_PARTS = (
    *(local_blocks.ExplicitBlocks, local_blocks.Names, local_blocks.Contiguous, local_blocks.Random),
    *(one_at_a_time.SliceAlongAxis, one_at_a_time.ParabolaAlongAxis, control_conditionals.AtValues),
)
"""Classes whose instances are stored as part of a move."""

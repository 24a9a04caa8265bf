"""Settings found by preliminary runs, for moves that have some: elliptical slice sampling has none."""

from ellipslice.tuning.controls import tune_controls
from ellipslice.tuning.hamiltonian import tune_hamiltonian
from ellipslice.tuning.steps import tune_step

__all__ = ["tune_controls", "tune_hamiltonian", "tune_step"]

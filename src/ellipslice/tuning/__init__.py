"""Settings found by preliminary runs, for moves that have some. Elliptical slice sampling has none.

- `steps`: a step size for Metropolis moves
- `controls`: control inputs for `ControlVariables`
- `hamiltonian`: step size and mass matrix for Hamiltonian Monte Carlo
"""

from ellipslice.tuning.controls import tune_controls
from ellipslice.tuning.hamiltonian import tune_hamiltonian
from ellipslice.tuning.steps import tune_step

__all__ = ["tune_controls", "tune_hamiltonian", "tune_step"]

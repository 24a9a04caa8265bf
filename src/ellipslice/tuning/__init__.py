"""Settings of moves, found by preliminary runs. Elliptical slice sampling has no settings to tune.

- `steps`: step size of Metropolis moves, by a grid search
- `controls`: control inputs of `ControlVariables`
- `hamiltonian`: step size and mass matrix of Hamiltonian Monte Carlo
"""

from ellipslice.tuning.controls import tune_controls
from ellipslice.tuning.hamiltonian import tune_hamiltonian
from ellipslice.tuning.steps import tune_step

__all__ = ["tune_controls", "tune_hamiltonian", "tune_step"]

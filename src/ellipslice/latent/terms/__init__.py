"""Terms of a linear predictor, one family per file: Gaussian effects with sparse precisions and hyperparameters.

>>> import ellipslice as es
>>> term = es.terms.RW2("age", prior=es.terms.pc_prior(1.0, 0.01))

To add one, write a class derived from `Term` or `ScaledTerm`, import it and add it to `REGISTERED` here, and add it to
`tests/catalogue_terms.py`.

- `base`: the base class of terms
- `description`: terms as text
- `extension`: effects at new levels, drawn given those of the data
- `scaled`: terms with one standard deviation, the base class for most new terms
- `structure`: the matrices of a term, and the part that depends on the data
- `columns`: columns of the data, missing values, levels and their codes
- `generalised`: log determinants, variances and draws of precisions that are singular in known directions
- `fixed`: coefficients of numeric columns
- `iid`: independent effects of groups, random intercepts and slopes
- `random_walk`: random walks of first and second order, regular, irregular and cyclic
- `autoregressive`: stationary autoregressions over equally spaced times
- `times`: equally spaced times, also those without data
- `seasonal`: seasonal effects of equally spaced times
- `entry_bases`: precisions as sums of bases with one entry
- `term_kernel`: kernels with hyperparameters at the inputs of a term
- `kernel_matrix`: dense covariance matrices of kernels
- `kernel_states`: states of quasi-separable kernels in time
- `state_precision`: precisions of these states, block tridiagonal
- `named_kernels`: kernels by name, and the default prior of their length scale
- `gaussian_process`: Gaussian processes with any kernel
- `places`: positions of rows in one or several columns
- `lattice`: regular lattices in the plane
- `matern`: Matérn fields in the plane
- `generic`: effects with a structure matrix of the user
- `graph`: graphs of regions, and intrinsic autoregressions on them
- `areal`: spatial effects of regions, ICAR, BYM and BYM2
"""

from ellipslice.latent.hyperpriors import gamma_precision, pc_mixing, pc_prior, pc_range
from ellipslice.latent.terms.areal import BYM, BYM2, ICAR
from ellipslice.latent.terms.autoregressive import AR1
from ellipslice.latent.terms.base import Term
from ellipslice.latent.terms.fixed import Fixed
from ellipslice.latent.terms.gaussian_process import GP
from ellipslice.latent.terms.generic import Generic
from ellipslice.latent.terms.iid import IID
from ellipslice.latent.terms.matern import Matern
from ellipslice.latent.terms.random_walk import RW1, RW2
from ellipslice.latent.terms.scaled import ScaledTerm
from ellipslice.latent.terms.seasonal import Seasonal
from ellipslice.latent.terms.structure import Structure

__all__ = [
    "AR1",
    "BYM",
    "BYM2",
    "GP",
    "ICAR",
    "IID",
    "RW1",
    "RW2",
    "Fixed",
    "Generic",
    "Matern",
    "ScaledTerm",
    "Seasonal",
    "Structure",
    "Term",
    "gamma_precision",
    "pc_mixing",
    "pc_prior",
    "pc_range",
]

REGISTERED = (Fixed, IID, RW1, RW2, AR1, Seasonal, ICAR, BYM, BYM2, Generic, Matern, GP)
"""All terms. The formulas, the reference pages and the tests read this list."""

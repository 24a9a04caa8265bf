"""Observation models, one per file: log-likelihoods of f that also return pointwise values and simulate data.

To add one, write a file with a class derived from `Likelihood` and decorated with `@pytree`, import it and add it to
`REGISTERED` here, and add it to `tests/catalogue_likelihoods.py`. The class has

- `__init__`, which checks the data (`observations`, `check_counts`, `as_labels` and `parameter` in `arguments.py`) and
  stores them with `set_fields` as NumPy arrays, with every constant that can be computed beforehand;
- `_pointwise(f, xp, special)`, in which `xp` and `special` are NumPy and SciPy, or their JAX equivalents inside
  compiled code;
- `expected`, `simulate` and the class attributes `log_concave`, `curvature_rate_bound` if there is one, and `command`,
  which describes the class for the command line.

- `base`: the base class of observation models, and special functions
- `arguments`: checks of observations and parameters
- `derivatives`: first and second derivatives by JAX
- `command`: description of a likelihood for the command line
- `gaussian`: real numbers with Gaussian noise
- `student_t`: real numbers with heavy-tailed noise
- `logistic`: binary labels, logistic link
- `probit`: binary labels, probit link
- `binomial`: numbers of successes in known numbers of trials
- `poisson`: counts
- `negative_binomial`: overdispersed counts
- `linear_predictor`: a log-likelihood of the linear predictor A f
"""

from ellipslice.likelihoods.base import Likelihood
from ellipslice.likelihoods.binomial import Binomial
from ellipslice.likelihoods.gaussian import Gaussian
from ellipslice.likelihoods.linear_predictor import LinearPredictor
from ellipslice.likelihoods.logistic import Logistic
from ellipslice.likelihoods.negative_binomial import NegativeBinomial
from ellipslice.likelihoods.poisson import Poisson
from ellipslice.likelihoods.probit import Probit
from ellipslice.likelihoods.student_t import StudentT

__all__ = [
    "Binomial",
    "Gaussian",
    "Likelihood",
    "LinearPredictor",
    "Logistic",
    "NegativeBinomial",
    "Poisson",
    "Probit",
    "StudentT",
]

REGISTERED = (Gaussian, StudentT, Poisson, NegativeBinomial, Logistic, Probit, Binomial)
"""All observation models. The command line, the reference pages and the tests read this list."""

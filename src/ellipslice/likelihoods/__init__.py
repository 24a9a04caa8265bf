"""Observation models, one per file: the log-likelihood of f, term by term, and new data drawn from it.

To add one, write a file with a class derived from `Likelihood` and decorated with `@pytree`, import it and add it to
`REGISTERED` here, and add it to `tests/catalogue_likelihoods.py`. The class has

- `__init__`, which checks the data (`observations`, `counts`, `labels`, `parameter` in `arguments.py`) and stores them
  with `set_fields` as NumPy arrays, together with every constant that can be worked out beforehand;
- `_pointwise(f, xp, special)`, in which `xp` and `special` are NumPy and SciPy, or JAX's equivalents inside compiled
  code;
- `expected`, `simulate` and the class attributes `log_concave`, `curvature_rate_bound` if there is one, and `command`,
  by which the command line offers it.

- `base`: the interface of an observation model, and special functions
- `arguments`: checks of observations and parameters
- `command`: how the command line offers a likelihood
- `gaussian`: Gaussian noise
- `student_t`: heavy-tailed noise
- `logistic`: two classes, logistic link
- `probit`: two classes, probit link
- `binomial`: successes out of a number of trials
- `poisson`: counts
- `negative_binomial`: overdispersed counts
- `linear_predictor`: observations of a linear predictor A f
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
"""Every observation model, for the command line, the reference pages and the catalogue of the tests."""

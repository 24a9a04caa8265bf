"""Observation models, one per file: log-likelihoods of f that also return pointwise values and simulate data.

To add one, write a file with a class derived from `Likelihood` and decorated with `@pytree`, import it and add it to
`REGISTERED` here, and add it to `tests/catalogue_likelihoods.py`. The class has

- `__init__`, which checks the data (`observations`, `check_counts`, `as_labels` and `parameter` in `arguments.py`) and
  stores them with `set_fields` as NumPy arrays, with every constant that can be computed beforehand;
- `_pointwise(f, xp, special)`, in which `xp` and `special` are NumPy and SciPy, or their JAX equivalents inside
  compiled code;
- `expected`, `simulate` and the class attributes `log_concave`, `curvature_rate_bound` if there is one, and `command`
  if the command line offers the class.

- `base`: the base class of observation models, and special functions
- `arguments`: checks of observations and parameters
- `derivatives`: first and second derivatives by JAX
- `command`: description of a likelihood for the command line
- `normal_tails`: the log of the normal distribution function and its derivatives
- `gaussian`: real numbers with Gaussian noise
- `student_t`: real numbers with heavy-tailed noise
- `logistic`: binary labels, logistic link
- `probit`: binary labels, probit link
- `binomial`: numbers of successes in known numbers of trials
- `poisson`: counts
- `negative_binomial`: overdispersed counts
- `complementary_log_log`: numbers of successes, complementary log-log link
- `probit_binomial`: numbers of successes, probit link
- `gamma`: positive numbers
- `beta`: proportions
- `weibull`: survival times, possibly censored
- `ordinal`: ordered categories
- `stochastic_volatility`: real numbers with an unknown log variance
- `zero_inflated`: the base class of counts with additional zeros
- `zero_inflated_poisson`: counts with additional zeros
- `zero_inflated_negative_binomial`: overdispersed counts with additional zeros
- `zero_inflated_binomial`: numbers of successes with additional zeros
- `linear_predictor`: a log-likelihood of the linear predictor A f
"""

from ellipslice.likelihoods.base import Likelihood
from ellipslice.likelihoods.beta import Beta
from ellipslice.likelihoods.binomial import Binomial
from ellipslice.likelihoods.complementary_log_log import ComplementaryLogLog
from ellipslice.likelihoods.gamma import Gamma
from ellipslice.likelihoods.gaussian import Gaussian
from ellipslice.likelihoods.linear_predictor import LinearPredictor
from ellipslice.likelihoods.logistic import Logistic
from ellipslice.likelihoods.negative_binomial import NegativeBinomial
from ellipslice.likelihoods.ordinal import Ordinal
from ellipslice.likelihoods.poisson import Poisson
from ellipslice.likelihoods.probit import Probit
from ellipslice.likelihoods.probit_binomial import ProbitBinomial
from ellipslice.likelihoods.stochastic_volatility import StochasticVolatility
from ellipslice.likelihoods.student_t import StudentT
from ellipslice.likelihoods.weibull import Weibull
from ellipslice.likelihoods.zero_inflated_binomial import ZeroInflatedBinomial
from ellipslice.likelihoods.zero_inflated_negative_binomial import ZeroInflatedNegativeBinomial
from ellipslice.likelihoods.zero_inflated_poisson import ZeroInflatedPoisson

__all__ = [
    "Beta",
    "Binomial",
    "ComplementaryLogLog",
    "Gamma",
    "Gaussian",
    "Likelihood",
    "LinearPredictor",
    "Logistic",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Probit",
    "ProbitBinomial",
    "StochasticVolatility",
    "StudentT",
    "Weibull",
    "ZeroInflatedBinomial",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
]

REGISTERED = (
    *(Gaussian, StudentT, Poisson, NegativeBinomial, Logistic, Probit, Binomial),
    *(ProbitBinomial, ComplementaryLogLog, Gamma, Beta, Weibull, Ordinal, StochasticVolatility),
    *(ZeroInflatedPoisson, ZeroInflatedNegativeBinomial, ZeroInflatedBinomial),
)
"""All observation models. The command line, the reference pages and the tests read this list."""

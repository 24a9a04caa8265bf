"""Priors of the hyperparameters of terms, and the check that a prior fits its hyperparameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ellipslice.checks import number, positive_number


class Hyperparameter(NamedTuple):
    """A hyperparameter of a term."""

    meaning: str
    lower: float
    """Smallest possible value."""
    upper: float
    """Largest possible value."""
    make_prior: Callable[[float], Any]
    """Function of the unit of the linear predictor that returns the default prior."""


def numpyro_distributions() -> Any:
    """Return the module `numpyro.distributions`. Raise ImportError if NumPyro is not installed."""
    try:
        import numpyro.distributions as distributions
    except ImportError:
        raise ImportError(
            "unknown hyperparameters require numpyro. Install it with: pip install 'ellipslice[latent]'."
        ) from None
    return distributions


def pc_prior(sd: float, probability: float) -> Any:
    """Return the penalised-complexity prior of a standard deviation: P(standard deviation > sd) = probability.

    It is the exponential distribution with rate -log(probability) / sd (Simpson et al. 2017).

    Parameters
    ----------
    sd : float
        A large value of the standard deviation. Positive.
    probability : float
        Prior probability of a larger value. Above 0 and below 1.

    Returns
    -------
    numpyro.distributions.Exponential

    Examples
    --------
    >>> round(float(pc_prior(1.0, 0.01).cdf(1.0)), 6)
    0.99
    """
    sd = positive_number("pc_prior: sd", sd)
    return numpyro_distributions().Exponential(-math.log(_inside("pc_prior: probability", probability)) / sd)


def gamma_precision(shape: float, rate: float) -> Any:
    """Return the prior of a standard deviation whose precision, 1 / sd^2, has a gamma distribution.

    Parameters
    ----------
    shape, rate : float
        Shape and rate of the gamma distribution. Positive.

    Returns
    -------
    numpyro.distributions.TransformedDistribution
    """
    distributions = numpyro_distributions()
    precision = distributions.Gamma(
        positive_number("gamma_precision: shape", shape), positive_number("gamma_precision: rate", rate)
    )
    return distributions.TransformedDistribution(precision, distributions.transforms.PowerTransform(-0.5))


def pc_range(range: float, probability: float) -> Any:  # noqa: A002
    """Return the penalised-complexity prior of the range of a field in the plane: P(field range < range) = probability.

    It is the inverse gamma distribution with shape 1 and scale -log(probability) * range (Fuglstad et al. 2019). The
    standard deviation of the field is independent of it, with the prior `pc_prior`.

    Parameters
    ----------
    range : float
        A small value of the range, in the unit of the coordinates. Positive.
    probability : float
        Prior probability of a smaller value. Above 0 and below 1.

    Returns
    -------
    numpyro.distributions.InverseGamma

    Examples
    --------
    >>> round(float(pc_range(10.0, 0.05).cdf(10.0)), 6)
    0.05
    """
    smallest = positive_number("pc_range: range", range)
    rate = -math.log(_inside("pc_range: probability", probability)) * smallest
    return numpyro_distributions().InverseGamma(1.0, rate)


def _inside(name: str, value: Any) -> float:
    """Return a number that is above 0 and below 1. Raise if it is not."""
    return number(name, value, above=0.0, most=math.nextafter(1.0, 0.0), expected="above 0 and below 1")


def support_of(distribution: Any) -> tuple[float, float]:
    """Return the smallest and the largest value of a distribution's support. Infinite if it is no distribution."""
    support = getattr(distribution, "support", None)
    bounds = (getattr(support, "lower_bound", -math.inf), getattr(support, "upper_bound", math.inf))
    return float(bounds[0]), float(bounds[1])


def check_prior(prior: Any, hyperparameter: Hyperparameter, name: str) -> Any:
    """Return a prior. Raise if it is not a NumPyro distribution of one number with the support of a hyperparameter."""
    lower, upper = hyperparameter.lower, hyperparameter.upper
    if not isinstance(prior, numpyro_distributions().Distribution):
        raise TypeError(
            f"the prior of {name} must be a NumPyro distribution, but it is {prior!r}. Use pc_prior(1.0, 0.01), "
            "gamma_precision(shape, rate), or a class of numpyro.distributions."
        )
    if prior.batch_shape or prior.event_shape or prior.is_discrete:
        raise ValueError(f"the prior of {name} must be a continuous distribution of one number, but it is {prior!r}.")
    found = support_of(prior)
    if not lower <= found[0] < found[1] <= upper:
        raise ValueError(
            f"the prior of {name} has the support ({found[0]:g}, {found[1]:g}). The {hyperparameter.meaning} is "
            f"between {lower:g} and {upper:g}. Use a distribution with a support in this range."
        )
    return prior


def describe_prior(prior: Any) -> str:
    """Return a distribution as text: its name and parameters."""
    if type(prior) is numpyro_distributions().TransformedDistribution:
        steps = prior.transforms
        base = describe_prior(prior.base_dist)
        if len(steps) == 1 and type(steps[0]).__name__ == "PowerTransform" and float(steps[0].exponent) == -0.5:
            return f"{base} of the precision, 1 / sd^2"
        return f"{base}, transformed by {', '.join(type(each).__name__ for each in steps)}"
    if (words := getattr(prior, "in_words", None)) is not None:
        return words
    values = [(name, getattr(prior, name, None)) for name in prior.arg_constraints]
    shown = ", ".join(f"{name}={float(value):.4g}" for name, value in values if value is not None)
    return f"{type(prior).__name__}({shown})"


def _default_deviation(unit: float) -> Any:
    return pc_prior(unit, 0.01)


def _uniform_proportion(unit: float) -> Any:
    return numpyro_distributions().Uniform(0.0, 1.0)


def _uniform_correlation(unit: float) -> Any:
    return numpyro_distributions().Uniform(-1.0, 1.0)


SD = Hyperparameter("standard deviation", 0.0, math.inf, _default_deviation)
"""A standard deviation. Default prior: P(sd > unit) = 0.01, in which the unit is 1, or the standard deviation of the
response for an identity link."""

MIXING = Hyperparameter("proportion of the variance", 0.0, 1.0, _uniform_proportion)
"""A proportion of variance. Default prior: uniform on (0, 1)."""

CORRELATION = Hyperparameter("correlation", -1.0, 1.0, _uniform_correlation)
"""A correlation. Default prior: uniform on (-1, 1)."""


RANGE = Hyperparameter("range", 0.0, math.inf, lambda unit: None)
"""The distance at which the correlation of a field is 0.14. The default prior depends on the places of the data."""

LENGTH_SCALE = Hyperparameter("length scale", 0.0, math.inf, lambda unit: None)
"""The unit of distances in a kernel. The default prior depends on the inputs of the data."""


class MixingPrior(NamedTuple):
    """The penalised-complexity prior of a mixing parameter, which depends on the graph of its term."""

    u: float
    probability: float


def pc_mixing(u: float, probability: float) -> MixingPrior:
    """Return the penalised-complexity prior of BYM2's phi: P(phi < u) = probability.

    The distance from independent effects is the square root of twice the Kullback-Leibler divergence, and has an
    exponential distribution (Riebler et al. 2016, Simpson et al. 2017). It depends on the eigenvalues of the graph, so
    it becomes a distribution when the term is bound. Graphs may have at most 2,000 regions.

    Parameters
    ----------
    u, probability : float
        Above 0 and below 1. Riebler et al. use u = 0.5 and probability = 2 / 3.

    Examples
    --------
    >>> import ellipslice as es
    >>> prior = {"phi": pc_mixing(0.5, 2 / 3)}
    >>> term = es.terms.BYM2("region", graph=[("a", "b"), ("b", "c")], prior=prior).bind({"region": ["a", "b"]})
    >>> round(float(term.priors["phi"].cdf(0.5)), 5)
    0.66667
    """
    return MixingPrior(_inside("pc_mixing: u", u), _inside("pc_mixing: probability", probability))


def given_priors(prior: Any, hyperparameters: Mapping[str, Hyperparameter], term: str) -> dict[str, Any]:
    """Return the priors that a user gave for a term, by name of the hyperparameter. Raise if there is no such name.

    Parameters
    ----------
    prior : distribution, mapping of str to distribution, or None
        One distribution is the prior of all standard deviations.
    hyperparameters : mapping of str to Hyperparameter
        Hyperparameters of the term.
    term : str
        Name of its class, for messages.
    """
    if prior is None:
        return {}
    if not isinstance(prior, Mapping):
        found = {name: prior for name, each in hyperparameters.items() if each is SD}
        if not found:
            raise ValueError(f"{term} has no hyperparameter, so prior= has no meaning. Fixed has the argument sd=.")
        return found
    unknown = [name for name in prior if name not in hyperparameters]
    if unknown:
        names = ", ".join(hyperparameters) or "none"
        raise ValueError(f"{term} has no hyperparameter {unknown[0]!r}. Its hyperparameters are: {names}.")
    return dict(prior)

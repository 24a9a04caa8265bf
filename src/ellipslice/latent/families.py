"""The families of responses, by name.

| name | response | link | unknown parameters | columns |
|---|---|---|---|---|
| `gaussian` | real numbers | identity | `noise_scale` | |
| `student_t` | real numbers with outliers | identity | `noise_scale`, `degrees_of_freedom` | |
| `poisson` | counts | log | | `exposure` |
| `negative_binomial` | counts | log | `dispersion` | `exposure` |
| `binomial` | numbers of successes | logit, probit, cloglog | | `trials` |
| `bernoulli` | 0 and 1 | logit, probit, cloglog | | |
| `gamma` | positive numbers | log | `shape` | |
| `beta` | proportions | logit | `precision` | |
| `exponential` | survival times | log, of the hazard | | `event` |
| `weibull` | survival times | log, of the factor of the hazard | `shape` | `event` |
| `zero_inflated_poisson` | counts | log | `zero_probability` | `exposure` |
| `zero_inflated_negative_binomial` | counts | log | `zero_probability`, `dispersion` | `exposure` |
| `zero_inflated_binomial` | numbers of successes | logit | `zero_probability` | `trials` |
| `ordinal` | categories 1, 2, ..., K | logit | `gap_1` to `gap_(K-2)` | `categories` |
| `stochastic_volatility` | real numbers with mean 0 | log, of the variance | | |

`event` is 1 for an observed event and 0 for a censored time. `categories` is one number: K, if the highest category may
be absent from the data.

A function of the response and the linear predictor, or a class that derives from `Likelihood`, is a family, too: see
`own_family`. To add one here, add an entry to `FAMILIES`, a line to this table, and a row to `CASES` in
`tests/latent/test_families.py`.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from typing import Any

from ellipslice.latent.family import CATEGORY, COUNT, POSITIVE, PROPORTION, REAL, ZERO_ONE, Family, Link
from ellipslice.latent.family_parameters import (
    BETA_PRECISION,
    DEGREES_OF_FREEDOM,
    DISPERSION,
    GAMMA_SHAPE,
    NOISE_SCALE,
    STUDENT_SCALE,
    WEIBULL_SHAPE,
    ZERO_PROBABILITY,
)
from ellipslice.latent.ordinal import ordinal, with_gaps
from ellipslice.latent.own_family import family_of_class, family_of_function
from ellipslice.likelihoods import (
    Beta,
    Binomial,
    ComplementaryLogLog,
    Gamma,
    Gaussian,
    Likelihood,
    Logistic,
    NegativeBinomial,
    Poisson,
    Probit,
    ProbitBinomial,
    StochasticVolatility,
    StudentT,
    Weibull,
    ZeroInflatedBinomial,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)

EXPOSURE = {"exposure": "offset"}
TRIALS = {"trials": "trials"}
EVENT = {"event": "event"}
BERNOULLI_LINKS = {"probit": Link(Probit, True), "cloglog": Link(ComplementaryLogLog, False)}
BINOMIAL_LINKS = {"probit": Link(ProbitBinomial, False), "cloglog": Link(ComplementaryLogLog, False)}


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("gaussian", Gaussian, "identity", REAL, {"noise_scale": NOISE_SCALE}, aliases=("normal",)),
        Family(
            "student_t",
            StudentT,
            "identity",
            REAL,
            {"noise_scale": STUDENT_SCALE, "degrees_of_freedom": DEGREES_OF_FREEDOM},
            aliases=("student", "t"),
        ),
        Family("poisson", Poisson, "log", COUNT, columns=EXPOSURE, aliases=("counts",)),
        Family(
            "negative_binomial",
            NegativeBinomial,
            "log",
            COUNT,
            {"dispersion": DISPERSION},
            columns=EXPOSURE,
            aliases=("nb", "negbin", "nbinomial", "negbinomial"),
        ),
        Family("binomial", Binomial, "logit", COUNT, columns=TRIALS, required=("trials",), links=BINOMIAL_LINKS),
        Family(
            "bernoulli", Logistic, "logit", ZERO_ONE, links=BERNOULLI_LINKS, aliases=("logit", "logistic", "binary")
        ),
        Family("gamma", Gamma, "log", POSITIVE, {"shape": GAMMA_SHAPE}),
        Family("beta", Beta, "logit", PROPORTION, {"precision": BETA_PRECISION}),
        Family(
            "exponential",
            functools.partial(Weibull, shape=1.0),
            "log",
            POSITIVE,
            columns=EVENT,
            observed_only=("event",),
            aliases=("exponentialsurv",),
        ),
        Family(
            "weibull",
            Weibull,
            "log",
            POSITIVE,
            {"shape": WEIBULL_SHAPE},
            columns=EVENT,
            observed_only=("event",),
            aliases=("weibullsurv", "survival"),
        ),
        Family(
            "zero_inflated_poisson",
            ZeroInflatedPoisson,
            "log",
            COUNT,
            {"zero_probability": ZERO_PROBABILITY},
            columns=EXPOSURE,
            aliases=("zip", "zeroinflatedpoisson1"),
        ),
        Family(
            "zero_inflated_negative_binomial",
            ZeroInflatedNegativeBinomial,
            "log",
            COUNT,
            {"zero_probability": ZERO_PROBABILITY, "dispersion": DISPERSION},
            columns=EXPOSURE,
            aliases=("zinb", "zeroinflatednbinomial1"),
        ),
        Family(
            "zero_inflated_binomial",
            ZeroInflatedBinomial,
            "logit",
            COUNT,
            {"zero_probability": ZERO_PROBABILITY},
            columns=TRIALS,
            required=("trials",),
            aliases=("zib", "zeroinflatedbinomial1"),
        ),
        Family(
            "ordinal",
            ordinal,
            "logit",
            CATEGORY,
            columns={"categories": "categories"},
            adapt=with_gaps,
            aliases=("cumulative", "pom", "ordered", "proportional_odds"),
        ),
        Family("stochastic_volatility", StochasticVolatility, "log", REAL, aliases=("stochvol", "sv")),
    )
}
"""The families, by name."""


def make_family(family: Any, link: str | None = None, **known: Any) -> Family:
    """Return a family of responses.

    Parameters
    ----------
    family : str, Family, class or function
        Name in `FAMILIES` (a hyphen may stand for an underscore), a `Family`, a class that derives from `Likelihood`,
        also with arguments that `functools.partial` sets, or a function as `own_family` describes.
    link : str, optional
        Link function. Default: that of the family.
    **known : float or array
        Columns such as `exposure` and `trials`, and values of parameters that are not estimated.

    Raises
    ------
    ValueError
        If there is no such name, or an argument has an impossible value.
    TypeError
        If `family` is of another type, or an argument has an unknown name.

    Examples
    --------
    >>> family = make_family("negative-binomial", exposure=[1.0, 2.0])
    >>> family
    Family(negative_binomial, log link, parameters: dispersion)
    >>> family.mean([0.0, 0.0], dispersion=3.0)
    array([1., 2.])
    """
    if isinstance(family, functools.partial):
        return make_family(family.func, link, **{**family.keywords, **known})
    found = family if isinstance(family, Family) else _by_name(family) if isinstance(family, str) else _of_code(family)
    return (found if link is None else found.with_link(link)).given(**known)


def _of_code(family: Any) -> Family:
    """Return the family of a class or of a function. Raise if it is neither."""
    for each in FAMILIES.values():
        for link, likelihood in ((each.link, each.likelihood), *((name, one[0]) for name, one in each.links.items())):
            if likelihood is family:
                return each.with_link(link)
    if isinstance(family, Likelihood):
        name = type(family).__name__
        raise TypeError(f"family is {family!r}, which contains data. Give the class {name}, or the name of a family.")
    if inspect.isclass(family) and issubclass(family, Likelihood):
        return family_of_class(family)
    if callable(family) and not inspect.isclass(family):
        return family_of_function(family)
    raise TypeError(
        f"family must be a name, a function, a Family or a class of likelihoods, but it is {family!r}. {_names()}"
    )


def _by_name(name: str) -> Family:
    """Return the family of this name. Raise, with similar names, if there is none."""
    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    if plain in FAMILIES:
        return FAMILIES[plain]
    aliases = {alias: each.name for each in FAMILIES.values() for alias in (*each.aliases, each.name)}
    same = {known.replace("_", ""): meant for known, meant in aliases.items()}
    similar = difflib.get_close_matches(plain.replace("_", ""), same, n=1)
    meant = f'Did you mean "{same[similar[0]]}"? ' if similar else ""
    raise ValueError(f"there is no family {name!r}. {meant}{_names()}")


def _names() -> str:
    return f"The families are: {', '.join(FAMILIES)}."

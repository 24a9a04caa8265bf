"""The families of responses, by name.

| name | response | link | unknown parameters | columns |
|---|---|---|---|---|
| `gaussian` | real numbers | identity | `noise_scale` | |
| `poisson` | counts | log | | `exposure` |
| `negative_binomial` | counts | log | `dispersion` | `exposure` |
| `binomial` | numbers of successes | logit | | `trials` |
| `bernoulli` | 0 and 1 | logit | | |

To add one, add an entry to `FAMILIES`, a line to this table, and a row to `CASES` in `tests/latent/test_families.py`.
"""

from __future__ import annotations

import difflib
import functools
import math
from typing import Any

import numpy as np

from ellipslice.latent.family import COUNT, REAL, ZERO_ONE, Family, FamilyParameter
from ellipslice.likelihoods import Binomial, Gaussian, Likelihood, Logistic, NegativeBinomial, Poisson


def _median_five(distributions: Any, y: np.ndarray) -> Any:
    """Return the log-normal prior with median 5, whose logarithm has standard deviation 1."""
    return distributions.LogNormal(math.log(5.0), 1.0)


def _half_deviation(distributions: Any, y: np.ndarray) -> Any:
    """Return the log-normal prior whose median is half the standard deviation of the responses."""
    deviation = float(np.std(y)) or 1.0
    return distributions.LogNormal(math.log(0.5 * deviation), 1.0)


NOISE_SCALE = FamilyParameter(
    "standard deviation of the noise",
    "log-normal, median half the standard deviation of y, standard deviation of the logarithm 1",
    _half_deviation,
)
DISPERSION = FamilyParameter(
    "dispersion: the variance of the response is mu + mu^2 / dispersion",
    "log-normal, median 5, standard deviation of the logarithm 1",
    _median_five,
)

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("gaussian", Gaussian, "identity", REAL, {"noise_scale": NOISE_SCALE}, aliases=("normal",)),
        Family("poisson", Poisson, "log", COUNT, columns={"exposure": "offset"}, aliases=("counts",)),
        Family(
            "negative_binomial",
            NegativeBinomial,
            "log",
            COUNT,
            {"dispersion": DISPERSION},
            columns={"exposure": "offset"},
            aliases=("nb", "negbin", "nbinomial", "negbinomial"),
        ),
        Family("binomial", Binomial, "logit", COUNT, columns={"trials": "trials"}, required=("trials",)),
        Family("bernoulli", Logistic, "logit", ZERO_ONE, aliases=("logit", "logistic", "binary")),
    )
}
"""The families, by name."""


def make_family(family: Any, **known: Any) -> Family:
    """Return a family of responses.

    Parameters
    ----------
    family : str, Family or class
        Name in `FAMILIES` (a hyphen may stand for an underscore), a `Family`, or a class of `ellipslice.likelihoods`,
        also with arguments that `functools.partial` sets.
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
    if isinstance(family, Family):
        return family.given(**known)
    if isinstance(family, str):
        return _by_name(family).given(**known)
    if isinstance(family, functools.partial):
        return make_family(family.func, **{**family.keywords, **known})
    for each in FAMILIES.values():
        if each.likelihood is family:
            return each.given(**known)
    if isinstance(family, Likelihood):
        name = type(family).__name__
        raise TypeError(f"family is {family!r}, which contains data. Give the class {name}, or the name of a family.")
    raise TypeError(f"family must be a name, a Family or a class of likelihoods, but it is {family!r}. {_names()}")


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

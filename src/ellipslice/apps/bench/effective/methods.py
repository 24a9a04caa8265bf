"""The methods by name. Only their own functions import BlackJAX and NumPyro."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence

from ellipslice import Dense
from ellipslice.apps.bench.effective import ours, rivals
from ellipslice.apps.bench.effective.measure import Sampler
from ellipslice.apps.bench.effective.problems import LatentProblem, latent_problem

METHODS: dict[str, Callable[[LatentProblem, int], Sampler]] = {
    "auto": ours.auto,
    "ellipses": ours.ellipses,
    "plain": ours.plain,
    "only-independent": ours.only_independent,
    "only-ellipses": ours.only_ellipses,
    "only-kicks": ours.only_kicks,
    "NUTS-diagonal": rivals.nuts_diagonal,
    "NUTS-dense": rivals.nuts_dense,
    "NUTS-identity": rivals.nuts_identity,
    "mgrad": rivals.AuxiliaryGradient,
}
"""Functions from a problem and a seed to a sampler that is ready to draw."""

EFFECTIVE_METHODS = ("auto", "ellipses", "plain", "NUTS-diagonal", "NUTS-dense", "NUTS-identity", "mgrad")
"""Methods of the comparison with other libraries."""

CHOICE_METHODS = ("only-independent", "only-ellipses", "only-kicks", "auto")
"""Methods of the test of the choice: each move that `reference="auto"` can choose, and the choice."""

PACKAGES = {"NUTS": "numpyro", "mgrad": "blackjax"}
"""Packages that methods require, by the part of the method's name before the first hyphen."""


MAX_DENSE_MASS = 500
"""Largest dimension with a dense mass matrix. The warm-up estimates it from at most about 500 draws."""


def why_not(method: str, problem: str) -> str | None:
    """Return why a method cannot be measured on a problem; None if it can."""
    package = PACKAGES.get(method.partition("-")[0])
    if package and importlib.util.find_spec(package) is None:
        return f"it requires {package}, which is not installed"
    rank = Dense(latent_problem(problem).covariance).noise_size if method == "NUTS-dense" else 0
    if rank > MAX_DENSE_MASS:
        return f"the warm-up is too short for a dense mass matrix of {rank} rows"
    return None


def check_methods(methods: Sequence[str]) -> None:
    """Raise if a name is not one of `METHODS`."""
    for name in methods:
        if name not in METHODS:
            raise ValueError(f"there is no method {name!r}. Choose from {', '.join(METHODS)}.")

"""Ordered categories with unknown cut points, each of which is given by its distance from the one before."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ellipslice.checks import reject, whole_number
from ellipslice.latent.family import Family
from ellipslice.latent.family_parameters import ordinal_gap
from ellipslice.likelihoods import Likelihood, Ordinal


def ordinal(y: Any, categories: Any = None, **gaps: Any) -> Likelihood:
    """Return the likelihood of categories from the distances `gap_1`, `gap_2`, ... between cut points.

    The first cut point is 0, because the intercept of the linear predictor has its role.
    """
    steps = [np.asarray(gaps[f"gap_{number}"], dtype=np.float64) for number in range(1, len(gaps) + 1)]
    return Ordinal(y, np.cumsum(np.stack([np.zeros(np.shape(sum(steps))), *np.broadcast_arrays(*steps)], -1), -1))


def with_gaps(family: Family, y: np.ndarray) -> Family:
    """Return the family with a parameter for each distance between cut points.

    The number of categories is the known `categories`, or by default the highest response.
    """
    categories = max(y.max(), 2.0)
    if "categories" in family.fixed:
        given = np.asarray(family.fixed["categories"])
        expected = "one whole number, at least 2: the number of categories"
        found = given.tolist() if given.ndim or given % 1 else int(given)
        categories = whole_number(f"{family.name}: categories", found, 2, expected)
    reject(f"{family.name}: y", y, y > categories, f"is higher than the number of categories, {categories:g}.")
    names = {f"gap_{number}": ordinal_gap(number) for number in range(1, int(categories) - 1)}
    return dataclasses.replace(family, parameters=names, adapt=None)

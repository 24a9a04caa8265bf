"""The description of a model contains what was given as known: exposure, trials and offset."""

from __future__ import annotations

import numpy as np
import pytest

import ellipslice as es

DATA = {"y": np.array([1.0, 2.0, np.nan, 0.0]), "E": np.array([1.0, 2.0, 3.0, 4.0]), "n": np.array([2, 3, 4, 5])}


@pytest.mark.parametrize(
    ("formula", "options", "expected"),
    [
        ("y ~ 1", {"family": "poisson"}, "log link, 4 rows, of which 1 to predict."),
        ("y ~ 1", {"family": "poisson", "exposure": "E"}, "of which 1 to predict, exposure: E."),
        ("y ~ 1", {"family": "poisson", "exposure": 2.0}, "of which 1 to predict, exposure: 2."),
        ("y ~ 1", {"family": "poisson", "exposure": DATA["E"]}, "of which 1 to predict, exposure: an array."),
        ("y ~ 1", {"family": "binomial", "trials": "n"}, "of which 1 to predict, trials: n."),
        ("y ~ offset(log(E))", {"family": "poisson"}, "of which 1 to predict, offset: log(E)."),
    ],
)
def test_what_is_known_is_described(formula, options, expected):
    first = es.LatentGaussianModel(formula, data=DATA, **options).describe().split("\n")[0]
    assert first.endswith(expected)


def test_the_offset_of_a_list_of_terms_is_described():
    model = es.LatentGaussianModel("y", [es.terms.Fixed(["1"])], data=DATA, family="poisson", offset="E")
    assert model.describe().split("\n")[0].endswith("of which 1 to predict, offset: E.")

"""Injected bugs in terms: `check_term` detects each of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import sparse

from catalogue_terms import (
    CATALOGUE,
    DATA,
    GAPS,
    GRAPH,
    REGIONS,
    autoregression,
    field,
    galerkin,
    joint_bym2,
    laplacian,
    scaled_laplacian,
    seasonal,
)
from ellipslice.latent.terms import AR1, BYM2, ICAR, IID, RW1, RW2, Fixed, Generic, Matern, Seasonal, Structure
from ellipslice.testing import check_term


def planted(cls, *arguments, options=None, **methods):
    """Return a term of a class with some methods replaced."""
    return type("Planted", (cls,), methods)(*arguments, **(options or {}))


def without(name):
    """Return the method `structure` of a random walk without constraints, or without improper directions."""
    return lambda self, levels: dataclasses.replace(RW2.structure(self, levels), **{name: {}})


def at_random_levels(self, column, data):
    """Return rows whose levels are those of the given data, not of the data of `bind`."""
    values = np.asarray(data[column])
    codes = np.unique(values, return_inverse=True)[1]
    return sparse.csr_array((np.ones(len(values)), (np.arange(len(values)), codes)), (len(values), self.size))


LATTICE = {"spacing": 0.5, "extension": 1.0}
WRONG = {
    "a log determinant with a rank that is one too large": (
        lambda: planted(RW1, "day", log_determinant=lambda self, sd: RW1.log_determinant(self, sd=sd) - 2 * np.log(sd)),
        None,
        "log_determinant at",
    ),
    "a log determinant without its constant": (
        lambda: planted(ICAR, "region", options=GRAPH, constant=lambda self, structure: 0.0),
        None,
        "log_determinant at",
    ),
    "a log determinant that ignores phi": (
        lambda: planted(
            BYM2,
            "region",
            options=GRAPH,
            log_determinant=lambda self, sd, phi: BYM2.log_determinant(self, sd=sd, phi=0.0),
        ),
        None,
        "log_determinant at",
    ),
    "coefficients of the variance instead of the precision": (
        lambda: planted(IID, "g", coefficients=lambda self, sd: np.array([sd**2])),
        lambda sd: np.eye(3) / sd**2,
        "is not the expected one",
    ),
    "a correlation with the wrong sign": (
        lambda: planted(
            AR1, "week", coefficients=lambda self, sd, rho: AR1.coefficients(self, sd=sd, rho=rho) * [1, 1, -1]
        ),
        autoregression,
        "is not the expected one",
    ),
    "a coupling without phi": (
        lambda: planted(
            BYM2,
            "region",
            options=GRAPH,
            coefficients=lambda self, sd, phi: BYM2.coefficients(self, sd=sd, phi=phi) * [1, phi**-0.5, 1, 1],
        ),
        joint_bym2,
        "is not the expected one",
    ),
    "a walk that ignores the distances": (
        lambda: planted(RW2, "age", options={"scale_model": False}, _distances=lambda self, positions: np.ones(4)),
        lambda sd: galerkin(GAPS) / sd**2,
        "is not the expected one",
    ),
    "a scaled walk that is not scaled": (
        lambda: RW2("age", scale_model=False),
        CATALOGUE["RW2, scaled, no trend"].precision,
        "is not the expected one",
    ),
    "components scaled by one factor": (
        lambda: ICAR("region", **GRAPH, scale_model=False),
        lambda sd: scaled_laplacian() / sd**2,
        "is not the expected one",
    ),
    "a period that is one too short": (
        lambda: Seasonal("week", period=3),
        lambda sd: seasonal(7, 4) / sd**2,
        "is not the expected one",
    ),
    "patterns with one sine too few": (
        lambda: planted(
            Seasonal,
            "week",
            options={"period": 3},
            structure=lambda self, levels: dataclasses.replace(
                Seasonal.structure(self, levels), improper={"cosine": np.cos(2 * np.pi * np.arange(7) / 3)}
            ),
            constant=lambda self, structure: 0.0,
        ),
        None,
        "is singular in 2 directions given the constraints, but improper has 1",
    ),
    "a structure matrix whose scale is ignored": (
        lambda: Generic("region", Q=laplacian(), labels=REGIONS, constraint="none"),
        CATALOGUE["Generic, flat, scaled"].precision,
        "is not the expected one",
    ),
    "a field without the factor 2": (
        lambda: planted(
            Matern,
            ("east", "north"),
            options=LATTICE,
            coefficients=lambda self, **h: Matern.coefficients(self, **h) * [1, 0.5, 1],
        ),
        field,
        "is not the expected one",
    ),
    "a field whose determinant forgets the nodes of the margin": (
        lambda: planted(
            Matern,
            ("east", "north"),
            options=LATTICE,
            log_determinant=lambda self, **h: Matern.log_determinant(self, **h) + 44 * np.log(h["sd"]),
        ),
        None,
        "log_determinant at",
    ),
    "a field that is drawn with another range": (
        lambda: planted(
            Matern,
            ("east", "north"),
            options=LATTICE,
            _simulate=lambda self, rng, sd, **h: Matern._simulate(self, rng, sd=sd, range=1.3 * h["range"]),
        ),
        None,
        "do not have the covariance",
    ),
    "a constraint that is missing": (
        lambda: planted(RW2, "age", structure=without("constraints"), constant=lambda self, structure: 0.0),
        None,
        "is singular in 2 directions given the constraints, but improper has 1",
    ),
    "an improper direction that is missing": (
        lambda: planted(RW2, "age", structure=without("improper"), constant=lambda self, structure: 0.0),
        None,
        "is singular in 1 directions given the constraints, but improper has 0",
    ),
    "an improper direction that is not flat": (
        lambda: planted(
            IID, "g", structure=lambda self, levels: Structure((np.eye(3),), improper={"level": np.ones(3)})
        ),
        None,
        "Q d is not 0",
    ),
    "a constraint twice": (
        lambda: planted(
            RW1,
            "day",
            structure=lambda self, levels: dataclasses.replace(
                RW1.structure(self, levels), constraints={"a": np.ones(6), "b": np.ones(6)}
            ),
            constant=lambda self, structure: 0.0,
        ),
        None,
        "constraints are not linearly independent",
    ),
    "a basis that is not symmetric": (
        lambda: planted(
            IID,
            "g",
            structure=lambda self, levels: Structure((np.triu(np.ones((3, 3))),)),
            constant=lambda self, structure: 0.0,
        ),
        None,
        "a basis is not symmetric",
    ),
    "levels that are found again in new data": (
        lambda: planted(IID, "g", _design=at_random_levels),
        None,
        "some rows of data have other rows than all data",
    ),
    "draws with another scale": (
        lambda: planted(AR1, "week", _simulate=lambda self, rng, **h: 1.2 * AR1._simulate(self, rng, **h)),
        None,
        "do not have the covariance",
    ),
    "draws without correlation": (
        lambda: planted(AR1, "week", _simulate=lambda self, rng, sd, rho: sd * rng.standard_normal(7)),
        None,
        "do not have the covariance",
    ),
    "draws that ignore the constraint": (
        lambda: planted(
            RW1, "day", _simulate=lambda self, rng, **h: RW1._simulate(self, rng, **h) + rng.standard_normal()
        ),
        None,
        "C x is not 0",
    ),
    "draws with a mean": (
        lambda: planted(IID, "g", _simulate=lambda self, rng, sd: IID._simulate(self, rng, sd=sd) + 0.5 * sd),
        None,
        "do not have",
    ),
    "draws from an improper prior": (
        lambda: planted(RW2, "age", simulate=lambda self, rng, **h: np.zeros(5)),
        None,
        "simulate draws from an improper prior",
    ),
    "draws that use global random numbers": (
        lambda: planted(IID, "g", _simulate=lambda self, rng, sd: sd * np.random.default_rng().standard_normal(3)),
        None,
        "not a deterministic function",
    ),
    "effects of a batch in another order": (
        lambda: planted(IID, "g", effects=lambda self, x: {"g": (("g_level",), np.flip(x, 0))}),
        None,
        "a batch of 'g' is not its rows",
    ),
    "a result with the name of its dimension": (
        lambda: planted(IID, "g", dim="g"),
        None,
        "which xarray does not allow",
    ),
    "a term that bind changes": (
        lambda: planted(Fixed, "x", bind=lambda self, data, **options: self),
        None,
        "bind changes the term",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_planted_bug_is_found(name):
    make, precision, message = WRONG[name]
    with pytest.raises(AssertionError, match=message):
        check_term(make(), DATA, precision=precision)

"""Injected bugs in chains over the members of an ensemble, and the tests that detect them."""

from __future__ import annotations

import numpy as np
import pytest

from ellipslice.gp.sklearn import ensemble
from ellipslice.gp.sklearn.laplace import GaussianApproximation
from statistical.test_estimators import SEEN, check_places

pytestmark = pytest.mark.statistical


def forget_the_evidence(self, away):
    return RATIO(self._replace(log_constant=0.0), away)


def forget_the_sites(self, away):
    return RATIO(self._replace(linear=0 * self.linear, precision=0 * self.precision), away)


def forget_the_weights(fresh, *rest):
    return RUN(lambda rng: fresh(rng)._replace(log_weight=0.0), *rest)


def forget_its_own(heights, rng):
    """The current member is never chosen, only the others."""
    return 1 + CHOOSE(heights[1:], rng)


RATIO, RUN, CHOOSE = GaussianApproximation.log_ratio, ensemble._run, ensemble._choose


@pytest.mark.long
@pytest.mark.parametrize("planted", [forget_the_evidence, forget_the_sites])
def test_a_wrong_ratio(planted, monkeypatch):
    monkeypatch.setattr(GaussianApproximation, "log_ratio", planted)
    with pytest.raises(AssertionError, match="standard errors off"):
        check_places(SEEN["StudentT, an outlier"]())  # the data are not equally likely under its three kernels


@pytest.mark.long
def test_places_without_their_weights(monkeypatch):
    monkeypatch.setattr(ensemble, "_run", forget_the_weights)
    with pytest.raises(AssertionError, match=r"places.*standard errors off"):
        check_places(SEEN["Logistic"]())


@pytest.mark.long
def test_always_another_place(monkeypatch):
    monkeypatch.setattr(ensemble, "_choose", forget_its_own)
    with pytest.raises(AssertionError, match="standard errors off"):
        check_places(SEEN["Logistic"]())


@pytest.mark.long
def test_white_noise_without_its_mean(monkeypatch):
    monkeypatch.setattr(
        GaussianApproximation, "white", lambda self, eta: WHITE(self._replace(white_mean=np.zeros(2)), eta)
    )
    with pytest.raises(AssertionError, match="standard errors off"):
        check_places(SEEN["Logistic"]())


WHITE = GaussianApproximation.white

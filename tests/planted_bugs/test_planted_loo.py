"""Injected bugs in leave-one-out: each is found by the closed form of Gaussian regression or by quadrature."""

from __future__ import annotations

import numpy as np
import pytest

from ellipslice.latent.leave_out import cases as cases_module
from ellipslice.latent.leave_out import lines as lines_module
from ellipslice.latent.leave_out.draws import RowDraw
from ellipslice.latent.leave_out.lines import Lines
from latent import test_loo as checks


class OwnResponseStays(Lines):
    """The cavity contains the response of the row itself."""

    def log_densities(self, t, lines):
        others, own = super().log_densities(t, lines)
        return others + own, own


class PriorOfTheReference(Lines):
    """The sites are not removed from the reference, so responses of other rows count twice."""

    @classmethod
    def through(cls, draw, rows):
        found = super().through(draw, rows)
        variance = draw.covariance[rows, rows]
        return found._replace(slope=(draw.mean - draw.change)[rows] / variance, curvature=-1 / variance)


class OtherRowsStay(Lines):
    """The linear predictors of the other rows do not change along the line."""

    @classmethod
    def through(cls, draw, rows):
        found = super().through(draw, rows)
        return found._replace(shift=np.eye(len(draw.offset))[rows])


@pytest.fixture(scope="module")
def regression():
    return checks.LatentGaussianModel(
        checks.Y["gaussian"], [checks.Fixed(["1", "x"], sd=[2.0, 0.5])], data=checks.DATA, family=checks.KNOWN
    ).fit(draws=30, seed=0, progress=False)


@pytest.mark.parametrize("wrong", [OwnResponseStays, PriorOfTheReference, OtherRowsStay])
def test_wrong_lines_are_found(wrong, monkeypatch):
    checks.test_each_draw_against_adaptive_quadrature("constraints and a trend")
    monkeypatch.setattr(lines_module, "Lines", wrong)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        checks.test_each_draw_against_adaptive_quadrature("constraints and a trend")


def test_plain_importance_sampling_is_found(regression, monkeypatch):
    """p(y_i | eta_i) of the draw instead of its integral."""
    checks.test_gaussian_regression_is_exact(regression)

    def plain(draw: RowDraw, rows: np.ndarray) -> np.ndarray:
        return draw.likelihood.pointwise(draw.eta)[rows]

    monkeypatch.setattr(cases_module, "log_cavity_densities", plain)
    monkeypatch.setattr("ellipslice.latent.leave_out.loo.warn", lambda _: None)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        checks.test_gaussian_regression_is_exact(regression)


def test_a_wrong_normaliser_of_the_cavity_is_found(monkeypatch):
    """H is too large by a tenth."""
    checks.test_a_group_of_one_row_is_the_row()
    group_terms = checks.group_terms

    def wrong(draw, group, rng):
        found = group_terms(draw, group, rng)
        return found._replace(outside=found.outside + np.log(1.1))

    monkeypatch.setattr(checks, "group_terms", wrong)
    with pytest.raises(AssertionError):
        checks.test_a_group_of_one_row_is_the_row()

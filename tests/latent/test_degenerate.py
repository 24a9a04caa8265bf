"""Unusual models and data: each has a correct fit or a clear error, before any long work."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from ellipslice import LatentGaussianModel
from ellipslice.latent.terms import BYM, BYM2, ICAR, IID, RW1, RW2, Fixed, ScaledTerm, Structure

OPTIONS = {"draws": 60, "warmup": 40, "chains": 2, "seed": 1, "progress": False}
ROWS = 40
_rng = np.random.default_rng(0)
X, GROUP, COUNTS = _rng.standard_normal(ROWS), np.repeat(np.arange(8), 5), _rng.poisson(2.0, ROWS).astype(float)
BINARY, REAL = (_rng.random(ROWS) < 0.5).astype(float), _rng.standard_normal(ROWS)
TIME, REGION = _rng.integers(0, 6, ROWS), _rng.choice(list("abcdef"), ROWS)
GRAPH = {"graph": [("a", "b"), ("b", "c"), ("d", "e")], "regions": list("abcdef")}
"""Two connected components and an island."""
DATA = {"x": X, "g": GROUP, "t": TIME, "r": REGION, "y": COUNTS}


def made(formula="y ~ x + (1 | g)", family="poisson", terms=None, **changed):
    options = {name: changed.pop(name) for name in ("fixed_sd", "exposure", "trials") if name in changed}
    return LatentGaussianModel(formula, terms, data={**DATA, **changed}, family=family, **options)


def fitted(*arguments, **options):
    """Return a fit, whose draws and summary are finite."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = made(*arguments, **options).fit(**OPTIONS)
    for values in fit.tree.posterior.data_vars.values():
        assert np.isfinite(values).all()
    assert (fit.tree.sample_stats.acceptance.mean() > 0.5).all()
    return fit


COMPONENT_WITHOUT_DATA = {"r": _rng.choice(list("abc"), ROWS)}
FITS = {
    "one group": lambda: fitted(g=["a"] * ROWS),
    "all zeros, poisson": lambda: fitted(y=0 * COUNTS),
    "all zeros, negative binomial": lambda: fitted(y=0 * COUNTS, family="negative_binomial"),
    "all zeros, bernoulli": lambda: fitted(y=0 * COUNTS, family="bernoulli"),
    "all zeros, gaussian": lambda: fitted(y=0 * COUNTS, family="gaussian"),
    "all successes": lambda: fitted(y=0 * COUNTS + 7, family="binomial", trials=7),
    "separated, default prior": lambda: fitted("y ~ x", y=X > 0, family="bernoulli"),
    "disconnected graph": lambda: fitted("y", terms=[Fixed("1"), ICAR("r", **GRAPH)]),
    "disconnected graph, BYM": lambda: fitted("y", terms=[Fixed("1"), BYM("r", **GRAPH)]),
    "disconnected graph, BYM2": lambda: fitted("y", terms=[Fixed("1"), BYM2("r", **GRAPH)]),
    "only islands": lambda: fitted(
        "y", terms=[Fixed("1"), ICAR("r", graph=np.zeros((6, 6)), regions=GRAPH["regions"])]
    ),
    "a component without data": lambda: fitted("y", terms=[Fixed("1"), BYM2("r", **GRAPH)], **COMPONENT_WITHOUT_DATA),
    "flat intercept and intrinsic term": lambda: fitted("y", terms=[Fixed("1", sd="flat"), ICAR("r", **GRAPH)]),
    "duplicate times": lambda: fitted("y ~ rw2(t)"),
    "free level and trend": lambda: fitted("y", terms=[RW2("t", constraint="none")]),
    "one row": lambda: fitted("y ~ (1 | g)", y=[3.0], g=["a"], x=[0.0], t=[0], r=["a"]),
    "one real response": lambda: fitted("y ~ 1", y=[3.0], g=["a"], x=[0.0], t=[0], r=["a"], family="gaussian"),
    "one effect for each row": lambda: fitted("y ~ (1 | i)", y=REAL, i=np.arange(ROWS), family="gaussian"),
    "huge counts": lambda: fitted(y=COUNTS * 1e9),
    "huge exposure": lambda: fitted(y=COUNTS * 1e6, family="negative_binomial", exposure=np.full(ROWS, 1e6)),
    "two terms of one column": lambda: fitted("y ~ rw1(t) + iid(t, name='u')"),
    "two terms of one column, as a list": lambda: fitted("y", terms=[RW1("t"), IID("t", name="u")]),
    "flat prior, real responses far from 0": lambda: fitted(
        "y ~ x + (1 | g)", y=REAL + 1e5, family="gaussian", fixed_sd="flat"
    ),
    "prior draws of the precision that are rounded to 0": lambda: fitted(
        "y ~ iid(g, prior=gamma_precision(0.001, 0.001))"
    ),
    "no intercept": lambda: fitted("y ~ 0 + x"),
    "booleans": lambda: fitted(y=BINARY.astype(bool), family="bernoulli"),
    "data frame with another index": lambda: LatentGaussianModel(
        "y ~ x + (1 | g)", data=pd.DataFrame({**DATA}, index=np.arange(ROWS) * 3 + 7), family="poisson"
    ).fit(**OPTIONS),
}
SHORT = (
    "all zeros, bernoulli",
    "prior draws of the precision that are rounded to 0",
    "separated, default prior",
    "disconnected graph, BYM2",
    "one row",
    "huge counts",
)


@pytest.mark.short_cases(*SHORT)
@pytest.mark.parametrize("name", FITS)
def test_a_fit(name):
    summary = FITS[name]().summary()
    assert np.isfinite(summary[["mean", "sd"]].to_numpy()).all()


def flat(**options):
    return made(fixed_sd="flat", **options)


NEARLY = np.concatenate([np.arange(20.0), np.arange(20.0) + 1e-6])
ERRORS = {
    "all zeros, flat": (lambda: flat(y=0 * COUNTS), "improper: a combination of .* the larger it is"),
    "all ones, flat": (lambda: flat(y=0 * COUNTS + 1, family="bernoulli"), "improper: a combination of"),
    "separated, flat": (lambda: flat(y=X > 0.2, family="bernoulli"), r"improper.*fixed \(x\).*fixed_sd=2.5"),
    "zeros in a flat group": (
        lambda: flat(formula="y ~ 0 + f", f=GROUP.astype(str), y=np.where(GROUP == 2, 0, COUNTS + 1)),
        r"improper: a combination of fixed \(f\[2\]\)",
    ),
    "two flat levels": (
        lambda: made("y", terms=[Fixed("1", sd="flat"), RW2("t", constraint="none")]),
        r"do not determine a combination of fixed \(Intercept\), t \(level\)",
    ),
    "a flat trend at one time": (
        lambda: made("y", terms=[Fixed("1", sd="flat"), RW2("t", values=[0, 1, 2])], t=np.zeros(ROWS)),
        r"do not determine a combination of fixed \(Intercept\), t \(linear trend\)",
    ),
    "constant column": (lambda: made("y ~ x + c", c=np.full(ROWS, 3.0)), "'c' is constant"),
    "column of zeros": (lambda: made("y ~ x + c", c=np.zeros(ROWS)), "'c' of the design matrix is 0"),
    "collinear columns": (lambda: made("y ~ x + z", z=2 * X), r"collinear: z = 2 \* x"),
    "missing predictor": (lambda: made(x=np.where(X > 1, np.nan, X)), "missing values in rows"),
    "missing group": (lambda: made(g=[None, *GROUP[1:]]), "missing values in row"),
    "no response": (lambda: made(y=np.full(ROWS, np.nan)), "missing in all rows"),
    "no rows": (lambda: LatentGaussianModel("y ~ 1", data={"y": []}), "no rows"),
    "exposure 0": (lambda: made(exposure=np.append(0.0, np.ones(ROWS - 1))), r"exposure\[0\] = 0 is not positive"),
    "too many successes": (lambda: made(y=COUNTS + 10, family="binomial", trials=9), "trials|y"),
    "negative counts": (lambda: made(y=COUNTS - 1), "is not a count"),
    "the same term twice": (lambda: made("y", terms=[RW1("t"), IID("t")]), "two terms have the name 't'"),
    "almost equal positions": (lambda: made("y ~ rw2(t)", t=NEARLY), "almost equal.* Round the column"),
    "extreme unit": (lambda: made(y=REAL * 1e15, family="gaussian"), "Use another unit of the response"),
    "unknown region": (lambda: made("y", terms=[ICAR("r", **GRAPH)], r=["z", *REGION[1:]]), "not in the graph: z"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error(name):
    make, message = ERRORS[name]
    with pytest.raises(ValueError, match=message):
        make()


def test_the_unit_of_the_response_changes_nothing():
    """Default priors are relative to it."""
    y = REAL + X + _rng.standard_normal(8)[GROUP]
    fits = [fitted(y=unit * y, family="gaussian") for unit in (1.0, 1e6, 1e-7)]
    names = ["noise_scale", "g_sd", "Intercept", "x"]
    first = fits[0].summary().loc[names, "mean"]
    for fit, unit in zip(fits[1:], (1e6, 1e-7), strict=True):
        np.testing.assert_allclose(fit.summary().loc[names, "mean"] / unit, first, rtol=0.02, atol=0.02)
        assert fit.move.settings.kicks <= fits[0].move.settings.kicks + 1


def test_missing_responses_are_predicted_and_say_nothing():
    """Draws are those of the model without these rows, if they add no level."""
    gone = np.arange(ROWS) % 3 == 1
    with_rows = fitted(y=np.where(gone, np.nan, COUNTS))
    rest = {name: np.asarray(values)[~gone] for name, values in DATA.items()}
    sds = {"Intercept": 5.0, "x": 1.0}
    models = [
        LatentGaussianModel("y ~ x + (1 | g)", data=data, family="poisson", fixed_sd=sds)
        for data in ({**DATA, "y": np.where(gone, np.nan, COUNTS)}, rest)
    ]
    one, other = (model.fit(**OPTIONS).tree.posterior for model in models)
    for name in one.data_vars:
        np.testing.assert_allclose(one[name].values, other[name].values, rtol=1e-6)
    predicted = with_rows.predict()
    assert predicted.expected.shape[-1] == ROWS
    assert np.isfinite(predicted.expected).all()


def test_an_unseen_group_has_an_effect_from_the_prior():
    fit = fitted()
    found = fit.predict({"x": [0.0, 0.0, 0.0], "g": [0, 99, 99]}, draws=None).linear_predictor.values.reshape(-1, 3)
    posterior = fit.tree.posterior
    level = posterior.fixed.sel(fixed_coefficient="Intercept").values.ravel()
    np.testing.assert_allclose(found[:, 0], level + posterior.g.sel(g_level=0).values.ravel())
    np.testing.assert_array_equal(found[:, 1], found[:, 2])  # one group
    effects = (found[:, 1] - level) / posterior.g_sd.values.ravel()
    assert abs(effects.mean()) < 5 / np.sqrt(len(effects))
    assert effects.std() == pytest.approx(1.0, abs=0.35)


def test_an_unseen_region_raises():
    fit = fitted("y", terms=[Fixed("1"), ICAR("r", **GRAPH)])
    with pytest.raises(ValueError, match="r has no level z"):
        fit.predict({"r": ["a", "z"]})


@dataclass(frozen=True, eq=False, repr=False)
class Ring(ScaledTerm):
    """Effects on a ring: differences of neighbours are small."""

    def structure(self, levels):
        n = len(levels)
        step = sparse.eye_array(n, format="csr") - sparse.csr_array(np.roll(np.eye(n), 1, axis=0))
        return Structure((step.T @ step + 0.1 * sparse.eye_array(n),))


def test_a_term_of_a_user():
    """It has predictions, a comparison with Laplace and a prior predictive distribution, like any other."""
    model = LatentGaussianModel("y", [Fixed("1"), Ring("t")], data=DATA, family="poisson")
    assert "t_sd" in model.hyperparameters
    assert "Effects on a ring" in model.describe()
    fit = model.fit(**OPTIONS)
    assert fit.predict({"t": [3, 0]}).expected.shape[-1] == 2
    assert "t_sd" in fit.compare_with_laplace(points=40).table.index
    assert model.prior_predictive(20)["t"].shape == (20, 6)

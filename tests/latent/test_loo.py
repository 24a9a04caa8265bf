"""Leave-one-out and leave-group-out against closed forms, quadrature and fits without the response."""

from __future__ import annotations

import functools

import arviz_stats
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from arviz_stats.base import array_stats
from scipy import integrate, special, stats

from ellipslice import LatentGaussianModel
from ellipslice.data import scotland, seeds
from ellipslice.latent.leave_out import cases as cases_module
from ellipslice.latent.leave_out import loo as loo_module
from ellipslice.latent.leave_out.draws import RowDraw, UsedDraws
from ellipslice.latent.leave_out.groups import group_terms
from ellipslice.latent.leave_out.lines import log_cavity_densities, log_integrals
from ellipslice.latent.leave_out.smoothing import error_of_sum, smoothed
from ellipslice.latent.terms import BYM2, IID, Fixed
from ellipslice.likelihoods import Gaussian
from latent_models import DATA, MODELS, Dense, Y, some_u, wrong_sites
from statistical.monte_carlo import LIMIT, SEED

pytestmark = [
    pytest.mark.statistical,
    pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame:DeprecationWarning"),  # in arviz_stats.compare
]

KNOWN = functools.partial(Gaussian, noise_scale=0.8)
DESIGN = np.column_stack([np.ones(24), DATA["x"]])
GROUPS = (DATA["g"][:, None] == np.array(list("pqrs"))).astype(float)


def group_log_densities(y, covariance, groups):
    """Return log p(y of a group | other y) for Gaussian y with mean 0."""
    found = []
    for group in groups:
        rest = np.setdiff1d(np.arange(len(y)), group)
        gain = covariance[np.ix_(group, rest)] @ np.linalg.inv(covariance[np.ix_(rest, rest)])
        left = covariance[np.ix_(group, group)] - gain @ covariance[np.ix_(rest, group)]
        found.append(stats.multivariate_normal(gain @ y[rest], left).logpdf(y[group]))
    return np.array(found)


@pytest.fixture(scope="module")
def regression():
    model = LatentGaussianModel(Y["gaussian"], [Fixed(["1", "x"], sd=[2.0, 0.5])], data=DATA, family=KNOWN)
    return model.fit(draws=30, seed=SEED, progress=False)


def test_gaussian_regression_is_exact(regression):
    """Without hyperparameters every draw gives the exact value, for rows and for groups."""
    covariance = DESIGN @ np.diag([4.0, 0.25]) @ DESIGN.T + 0.64 * np.eye(24)
    exact = group_log_densities(Y["gaussian"], covariance, np.arange(24)[:, None])
    found = regression.loo()
    np.testing.assert_allclose(found.elpd_i, exact, atol=1e-8)
    assert found.mcse < 1e-8
    np.testing.assert_allclose(found.se, np.sqrt(24 * exact.var()))
    members = [np.flatnonzero(DATA["g"] == each) for each in "pqrs"]
    by_group = regression.loo(groups=DATA["g"])
    np.testing.assert_allclose(by_group.elpd_i, group_log_densities(Y["gaussian"], covariance, members), atol=1e-6)
    assert list(by_group.elpd_i.coords["group"].values) == list("pqrs")


def test_gaussian_with_unknown_standard_deviation():
    """Given the hyperparameter the value is exact, so only its posterior has a Monte Carlo error."""
    y, prior = Y["gaussian"] + GROUPS @ [0.0, 0.8, -0.4, 0.4], dist.LogNormal(-0.5, 0.8)
    model = LatentGaussianModel(y, [Fixed("1", sd=2.0), IID("g", prior=prior)], data=DATA, family=KNOWN)
    fit = model.fit(draws=200, seed=SEED + 1, progress=False)
    grid = np.linspace(-4.5, 2.5, 121)
    covariances = [4.0 + np.exp(2 * u) * GROUPS @ GROUPS.T + 0.64 * np.eye(24) for u in grid]
    members = [np.flatnonzero(DATA["g"] == each) for each in "pqrs"]
    for cases, groups, draws in ((np.arange(24)[:, None], None, 400), (members, DATA["g"], 400)):
        expected = 0.0
        given = np.array([group_log_densities(y, covariance, cases) for covariance in covariances])
        whole = np.array([stats.multivariate_normal(np.zeros(24), covariance).logpdf(y) for covariance in covariances])
        for own in given.T:
            weight = whole - own + stats.norm(-0.5, 0.8).logpdf(grid)  # p(u, other responses)
            expected += special.logsumexp(weight + own) - special.logsumexp(weight)
        found = fit.loo(draws, groups=groups)
        assert abs(found.elpd - expected) < LIMIT * found.mcse
        assert found.mcse < 0.15


def a_draw(name):
    """Return a draw with sites that have nothing to do with the responses, its latents, and its densities."""
    posterior = MODELS[name].definition.posterior
    u, sites = some_u(posterior), wrong_sites(posterior)
    dense, at = Dense(posterior, u, sites), posterior.at(u)
    assert at is not None
    reference = posterior.reference(at, sites)
    assert reference is not None
    x = dense.mean + dense.inside @ np.random.default_rng(3).standard_normal(dense.inside.shape[1]) * 0.3
    covariance = reference.covariance_of(posterior.assembly.A)
    return RowDraw(at.likelihood, dense.offset, dense.A @ x, dense.A @ reference.mean, covariance, sites), x, dense


@pytest.mark.parametrize("name", ["constraints and a trend", "five hyperparameters", "free level"])
def test_each_draw_against_adaptive_quadrature(name):
    """r_i is a ratio of two integrals along a line through the draw, for any sites."""
    draw, x, dense = a_draw(name)
    for row, value in zip((0, 7), log_cavity_densities(draw, np.array([0, 7])), strict=True):
        direction = dense.covariance @ dense.A[row]
        direction /= dense.A[row] @ direction

        def log_density(t, rows, direction=direction):
            moved = x + t * direction
            likelihood = draw.likelihood.pointwise(dense.A @ moved + dense.offset)[rows].sum()
            return likelihood - 0.5 * moved @ dense.Q @ moved

        everything = np.arange(len(dense.A))
        logs = []
        for rows in (everything, np.delete(everything, row)):
            top = max(log_density(t, rows) for t in np.linspace(-8, 8, 161))
            values = integrate.quad(lambda t, r=rows, m=top: np.exp(log_density(t, r) - m), -15, 15, limit=300)
            logs.append(np.log(values[0]) + top)
        np.testing.assert_allclose(value, logs[0] - logs[1], atol=1e-6)


def test_a_group_of_one_row_is_the_row():
    """The two estimates of a group are unbiased, and so is that of the inverse, by quadrature over the draw."""
    draw, _, _ = a_draw("constraints and a trend")
    row, rng = np.array([4]), np.random.default_rng(1)
    terms = [group_terms(draw, row, rng) for _ in range(3000)]
    inside, outside = (np.exp([getattr(each, part) for each in terms]) for part in ("inside", "outside"))
    means, errors = (np.array([f(part) for part in (inside, outside)]) for f in (np.mean, np.std))
    error = np.hypot(*(errors / means)) / np.sqrt(len(terms))
    exact = np.exp(log_cavity_densities(draw, row)[0])
    assert abs(means[0] / means[1] / exact - 1) < LIMIT * error
    assert error < 0.01
    sd, shift = np.sqrt(draw.covariance[4, 4]), draw.covariance[4] / draw.covariance[4, 4]
    z = np.linspace(-7, 7, 241)
    moved = [draw._replace(change=draw.change + shift * (draw.mean[4] + sd * each - draw.change[4])) for each in z]
    at = [group_terms(each, row, rng) for each in moved]
    log_f = -0.5 * z**2 - np.array([each.inverse for each in at])
    log_h = log_f - np.array([each.likelihood.pointwise(each.eta)[4] for each in moved])
    for log_density, part, mean in zip((log_f, log_h), ("inverse", "inverse_outside"), means, strict=True):
        weights = np.exp(log_density) / np.exp(log_density).sum()
        found = (weights * np.exp([getattr(each, part) for each in at])).sum() * mean
        assert abs(found - 1) < LIMIT * error + 1e-4


def test_integrals_from_wrong_starts():
    """Centre and standard deviation are corrected; two peaks and a tail beyond the nodes are found."""
    means, sds = np.array([0.0, 9.0, -30.0, 0.4, 2.0]), np.array([1.0, 0.05, 3.0, 20.0, 0.3])

    def log_density(t, which):
        one = -0.5 * ((t - means[which]) / sds[which]) ** 2
        two = -0.5 * ((t - means[which] - 3 * sds[which]) / (0.6 * sds[which])) ** 2
        return np.logaddexp(one, two)

    found = log_integrals(log_density, np.zeros(5), np.ones(5))
    np.testing.assert_allclose(found, np.log(1.6 * sds * np.sqrt(2 * np.pi)), atol=1e-5)


def poisson_model(rows=30, seed=4, sd=1.0, level=2.5):
    """Return counts with an effect of each row, for which plain importance sampling is wrong."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rows)
    y = rng.poisson(np.exp(level + 0.5 * x + sd * rng.standard_normal(rows)))
    data = pd.DataFrame({"x": x, "plot": np.arange(rows), "y": y}, index=[f"p{i}" for i in range(rows)])
    return LatentGaussianModel("y ~ x + (1 | plot)", data=data, family="poisson")


@pytest.fixture(scope="module")
def counts():
    return poisson_model(20, sd=0.5).fit(draws=300, seed=SEED + 2, progress=False)


def plain(fit, draws):
    """Return the sum and its error by importance sampling of the pointwise log-likelihood."""
    used = UsedDraws.of(fit.model.definition, fit.tree, draws)
    values = np.stack([draw.likelihood.pointwise(draw.eta) for draw in used.with_references(fit.move.white)])
    found = smoothed(values, -values, used.chains)
    return found.elpd.sum(), error_of_sum(found.influence, found.efficiency), found.pareto_k.max()


def test_rows_and_groups_of_one_row_agree(counts):
    rows, groups = counts.loo(800), counts.loo(100, groups=np.arange(20))
    assert abs(rows.elpd - groups.elpd) < LIMIT * np.hypot(rows.mcse, groups.mcse)
    assert rows.mcse < 0.15
    assert rows.pareto_k.max() < 0.5 < plain(counts, 800)[2]


@pytest.mark.long
def test_refit_of_rows_with_a_large_pareto_k(counts, monkeypatch):
    """A refit gives the same value up to the Monte Carlo errors. Without it there is a warning."""
    direct = counts.loo(800)

    def smoothed_with_a_tail(*arguments):
        found = smoothed(*arguments)
        found.pareto_k[3] = 0.9
        return found

    monkeypatch.setattr(loo_module, "smoothed", smoothed_with_a_tail)
    with pytest.warns(UserWarning, match=r"above 0\.66 for 1 of 20 rows \(p3\).*refit=True"):
        assert counts.loo(800).warning
    again = counts.loo(800, refit=True)
    assert again.refitted == ["p3"]
    assert again.pareto_k.sel(row="p3") == 0
    difference = float(again.elpd_i.sel(row="p3") - direct.elpd_i.sel(row="p3"))
    assert 0 < abs(difference) < LIMIT * np.hypot(again.mcse, direct.mcse)
    assert "1 computed by fits without them" in str(again)


def test_result_is_that_of_arviz(counts):
    found = counts.loo()
    assert isinstance(found, arviz_stats.ELPDData)
    assert list(found.elpd_i.coords["row"].values) == [f"p{i}" for i in range(20)]
    assert found.elpd == pytest.approx(float(found.elpd_i.sum()))
    assert 1 < found.p < 20
    assert "elpd_loo" in str(found)
    assert "Monte Carlo standard error" in repr(found)


def test_compare(counts):
    data = {"y": counts.model.definition.y}
    worse = LatentGaussianModel("y ~ 1", data=data, family="poisson").fit(draws=200, seed=1, progress=False)
    table = worse.compare(counts, names=["constant", "plots"], draws=200)
    assert list(table.index) == ["plots", "constant"]
    assert table.elpd_diff["constant"] > 2 * table.dse["constant"] > 0
    with pytest.raises(TypeError, match="another fit"):
        counts.compare()
    with pytest.raises(ValueError, match="1 different names, but there are 2 fits"):
        counts.compare(worse, names=["a", "a"])
    other = LatentGaussianModel("y ~ 1", data={"y": np.arange(5)}, family="poisson").fit(draws=20, progress=False)
    with pytest.raises(ValueError, match="the responses of model 2 are not those of model 1"):
        counts.compare(other)


def test_invalid_groups(counts):
    with pytest.raises(ValueError, match=r"groups has shape \(3,\), but the data have 20 rows"):
        counts.loo(groups=["a", "b", "c"])
    with pytest.raises(ValueError, match="all rows with a response are in one group"):
        counts.loo(groups=np.zeros(20))
    for missing in (None, np.nan, pd.NA):
        with pytest.raises(ValueError, match=r"groups has missing values in row 3\. Drop these rows"):
            counts.loo(groups=np.array(["a", "b", "c", missing, *"abcdabcdabcdabcd"], dtype=object))
    with pytest.raises(TypeError, match="groups has values of several types"):
        counts.loo(groups=np.array([1, *"abcdabcdabcdabcdabc"], dtype=object))
    with pytest.raises(ValueError, match="draws"):
        counts.loo(24)
    short = counts.model.fit(draws=12, chains=2, warmup=2, seed=SEED, progress=False)
    with pytest.raises(ValueError, match="the fit has 24 draws in all, but leave-one-out requires at least 25"):
        short.loo()


def test_the_fewest_draws(counts):
    with pytest.warns(UserWarning, match="Pareto k is above"):
        assert counts.loo(25).n_samples == 28


def test_equal_largest_weights_are_not_reliable():
    """Chains that do not move have them, and there is no tail to fit."""
    log_weight = np.repeat([[0.3, 0.0], [0.3, 1.0], [0.1, 0.5]], 40, axis=0)
    found = smoothed(-log_weight, log_weight, 1)
    np.testing.assert_array_equal(found.pareto_k, np.inf)
    np.testing.assert_allclose(found.elpd, -np.log(np.exp(log_weight).mean(0)))


def test_too_many_rows(counts, monkeypatch):
    monkeypatch.setattr(cases_module, "MOST_ROWS", 10)
    with pytest.raises(ValueError, match=r"there are 20 rows with a response, .* at most 10\. Hold out some rows"):
        counts.loo()


def test_a_row_that_alone_determines_a_flat_effect():
    x = np.zeros(12)
    x[5] = 1.0
    y = np.random.default_rng(0).standard_normal(12)
    fit = LatentGaussianModel("y ~ x", data={"x": x, "y": y}, fixed_sd="flat").fit(draws=50, seed=1, progress=False)
    with pytest.raises(ValueError, match="row 5 cannot be left out"):
        fit.loo()


def test_rows_without_a_response():
    """They are not left out, and the other rows have the values of a model without them."""
    y = np.where(np.arange(24) % 5 == 2, np.nan, Y["gaussian"])
    model = LatentGaussianModel(y, [Fixed(["1", "x"], sd=[2.0, 0.5])], data=DATA, family=KNOWN)
    found = model.fit(draws=20, seed=1, progress=False).loo(25)
    kept = ~np.isnan(y)
    covariance = (DESIGN @ np.diag([4.0, 0.25]) @ DESIGN.T + 0.64 * np.eye(24))[np.ix_(kept, kept)]
    exact = group_log_densities(y[kept], covariance, np.arange(kept.sum())[:, None])
    np.testing.assert_allclose(found.elpd_i, exact, atol=1e-8)
    assert list(found.elpd_i.coords["row"].values) == list(np.flatnonzero(kept))


def test_a_family_that_is_a_function():
    """exp(-(y - eta)^2) is a Gaussian with variance 1/2 times a constant, so the value is exact."""

    def log_density(y, eta):
        return -((y - eta) ** 2)

    y = np.array([0.3, -1.0, 2.0, 0.4, 1.1])
    fit = LatentGaussianModel(y, [Fixed("1", sd=2.0)], data={"y": y}, family=log_density).fit(
        draws=20, seed=1, progress=False
    )
    covariance = 4.0 + 0.5 * np.eye(5)
    for cases, groups in ((np.arange(5)[:, None], None), ([[0, 1], [2, 3, 4]], np.array([0, 0, 1, 1, 1]))):
        exact = group_log_densities(y, covariance, cases) + 0.5 * np.log(np.pi) * np.array([len(c) for c in cases])
        np.testing.assert_allclose(fit.loo(40, groups=groups).elpd_i, exact, atol=1e-6)


# --- Fits without each response ---------------------------------------------------------------------------------------


def by_refits(model, densities, draws):
    """Return the sum of the log predictive densities by fits without each response, and its error.

    `densities` is a function of linear predictors (chain, draw) and of the row.
    """
    total, variance = 0.0, 0.0
    for row in range(len(model.definition.y)):
        fit = model.without([row]).fit(draws=draws, seed=SEED + row, progress=False)
        values = densities(fit.linear_predictor().values[..., row], row)
        total += np.log(values.mean())
        size = array_stats.ess(values, chain_axis=0, draw_axis=1, method="mean")
        variance += values.var() / size / values.mean() ** 2
    return total, np.sqrt(variance)


def seeds_case():
    data = {**seeds(), "plate": np.arange(21)}
    model = LatentGaussianModel("r ~ x1 * x2 + (1 | plate)", data=data, family="binomial", trials="n")
    return model, lambda eta, row: stats.binom(data["n"][row], special.expit(eta)).pmf(data["r"][row])


def scotland_case():
    data = scotland()
    terms, columns = [Fixed("1"), BYM2("Region", graph=data.edges)], data.columns
    model = LatentGaussianModel("Counts", terms, data=columns, family="poisson", exposure="E")
    return model, lambda eta, row: stats.poisson(columns["E"][row] * np.exp(eta)).pmf(columns["Counts"][row])


def counts_case():
    model = poisson_model(level=1.5)
    return model, lambda eta, row: stats.poisson(np.exp(eta)).pmf(model.definition.y[row])


@pytest.mark.long
@pytest.mark.parametrize(("case", "draws"), [(seeds_case, 800), (scotland_case, 400), (counts_case, 1000)])
def test_against_fits_without_each_row(case, draws):
    """The error is below 0.1 and two Monte Carlo errors. That of plain importance sampling is not, except for maps."""
    model, densities = case()
    fit = model.fit(draws=1000, seed=SEED + 3, progress=False)
    found = fit.loo()
    expected, error = by_refits(model, densities, draws)
    assert abs(found.elpd - expected) < 0.1 + 2 * np.hypot(found.mcse, error)
    assert np.hypot(found.mcse, error) < 0.25
    wrong, wrong_error, _ = plain(fit, 400)
    if case is not scotland_case:
        assert abs(wrong - expected) > 0.1 + 2 * np.hypot(wrong_error, error)

"""The estimators compared with exact answers and with scikit-learn's Gaussian processes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel

import ellipslice as es
from ellipslice.gp.sklearn import ensemble
from ellipslice.gp.sklearn.laplace import find_mode, find_sites, gaussian_from_sites
from ellipslice.likelihoods import Gaussian, Logistic, Poisson, Probit, StudentT
from ellipslice.priors.parts.kernels import covariance_matrix
from statistical.monte_carlo import SEED, compare

pytestmark = pytest.mark.statistical

PAIR = np.array([[0.0], [0.8]])
SEEN = {
    "Logistic": lambda: Logistic([1.0, -1.0]),
    "Probit": lambda: Probit([1.0, 1.0]),
    "Poisson": lambda: Poisson([0.0, 7.0]),
    "StudentT, an outlier": lambda: StudentT([0.3, 4.0], 0.5),
    "Gaussian": lambda: Gaussian([0.3, -1.0], 0.4),
}


def check_places(likelihood):
    """Check the frequency of three kernels and the latent values of two inputs, against sums over a fine grid."""
    matrices = [covariance_matrix(a**2 * RBF(s), PAIR) for a, s in ((0.7, 2.0), (1.5, 1.0), (3.0, 0.5))]
    prior = np.array([0.5, 0.3, 0.2])
    gaussians = [gaussian_from_sites(matrix, likelihood, find_sites(matrix, likelihood)) for matrix in matrices]

    def fresh(rng):
        """Return a member drawn with equal probabilities, so that its weight is proportional to the prior."""
        number = rng.integers(3)
        return ensemble.EnsembleMember({"number": number}, np.log(prior[number]), gaussians[number])

    rngs = np.random.default_rng(SEED + 1).spawn(4)
    runs = [ensemble._run(fresh, ensemble.EnsembleSettings(2, 500, 1000, 50, 1), rng) for rng in rngs]
    where = np.stack([np.array([value["number"] for value in values])[which] for values, which, _ in runs])
    z = np.stack([z for _, _, z in runs])
    lowers = np.stack([np.linalg.cholesky(matrix) for matrix in matrices])
    f = np.einsum("cdij,cdj->cdi", lowers[where], z)

    axis = np.linspace(-9, 9, 721) * 1.2
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    log_joint = np.stack([multivariate_normal(cov=m).logpdf(grid) for m in matrices]) + likelihood(grid)
    joint = np.exp(log_joint) * prior[:, None, None]
    joint /= joint.sum()
    compare((where[..., None] == np.arange(3)).astype(float), joint.sum(axis=(1, 2)), "places")
    compare(f, np.einsum("pij,ijk->k", joint, grid), "latent values")
    compare(f**2, np.einsum("pij,ijk->k", joint, grid**2), "their squares")


def not_worse(gains):
    """Check that scores of held-out data are not worse than another method's, up to sampling error.

    `gains` are the differences of the scores.
    """
    assert gains.mean() > -3 * gains.std() / np.sqrt(len(gains))


@pytest.mark.long
@pytest.mark.parametrize("name", SEEN)
def test_places_and_latent_values(name):
    check_places(SEEN[name]())


def test_what_is_not_a_number_is_never_chosen():
    rng = np.random.default_rng(SEED)
    assert {ensemble._choose([np.nan, 0.0, -np.inf, 1.0], rng) for _ in range(200)} == {1, 3}


def test_evidence_is_exact_for_gaussian_noise():
    rng = np.random.default_rng(SEED + 2)
    X, y = rng.standard_normal((20, 2)), rng.standard_normal(20)
    matrix, likelihood = covariance_matrix(2.0 * RBF(1.0), X), Gaussian(y, 0.3)
    exact = multivariate_normal(cov=matrix + 0.09 * np.eye(20)).logpdf(y)
    mode = find_mode(matrix, likelihood)
    assert mode.log_evidence == pytest.approx(exact, abs=1e-5)
    here = gaussian_from_sites(matrix, likelihood, find_sites(matrix, likelihood))
    for eta in rng.standard_normal((3, 20)):  # equal for all, so that the draws of a chain are independent
        assert here.log_ratio(here.root @ eta) == pytest.approx(exact, abs=1e-5)


@pytest.mark.long
def test_unknown_parameters_beside_a_fine_grid():
    """Posterior means and standard deviations of the logarithms of amplitude, length scale and noise scale."""
    rng = np.random.default_rng(SEED + 3)
    X = rng.uniform(-2, 2, (40, 1))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(40)
    model = es.gp.EllipticalGPRegressor(ensemble_refreshes=300, draws=600, random_state=SEED + 4).fit(X, y)
    inputs, normal = (X - X.mean()) / X.std(), (y - y.mean()) / y.std()
    axes = [np.linspace(-2.0, 3.5, 34), np.linspace(-2.0, 3.0, 30), np.linspace(-2.5, 0.5, 30)]
    heights = np.zeros([len(axis) for axis in axes])
    spread = (np.quantile(normal, 0.8413) - np.quantile(normal, 0.1587)) / 2
    centres = (0.0, 0.0, np.log(0.3 * spread))
    deviations = (0.7, 0.7, 1.0)
    prior = [-0.5 * ((axis - c) / d) ** 2 for axis, c, d in zip(axes, centres, deviations, strict=True)]
    for j, log_scale in enumerate(axes[1]):
        values, vectors = np.linalg.eigh(Matern(np.exp(log_scale), nu=2.5)(inputs))
        power = (vectors.T @ normal) ** 2
        variances = np.exp(2 * axes[0])[:, None, None] * np.maximum(values, 0) + np.exp(2 * axes[2])[:, None]
        heights[:, j] = -0.5 * (np.log(variances) + power / variances).sum(-1)
    heights += prior[0][:, None, None] + prior[1][:, None] + prior[2]
    weights = np.exp(heights - heights.max())
    weights /= weights.sum()
    found = model.parameters_ | {"noise_scale": model.parameters_["noise_scale"] / y.std()}
    for k, name in enumerate(("amplitude", "length_scale", "noise_scale")):
        margin = weights.sum(axis=tuple({0, 1, 2} - {k}))
        mean = margin @ axes[k]
        deviation = np.sqrt(margin @ (axes[k] - mean) ** 2)
        logs = np.log(found[name])
        compare(logs[..., None], [mean], name)
        compare((logs[..., None] - mean) ** 2, [deviation**2], f"{name}, variance")


@pytest.mark.long
def test_regression_with_gaussian_noise_is_scikit_learn_s():
    rng = np.random.default_rng(SEED + 5)
    X = rng.uniform(-3, 3, (60, 1))
    y = 5 + 2 * np.sin(2 * X[:, 0]) + 0.4 * rng.standard_normal(60)
    new = np.linspace(-4, 4, 21)[:, None]
    theirs = GaussianProcessRegressor(RBF(0.7), alpha=(0.4 / y.std()) ** 2, optimizer=None, normalize_y=True)
    mean, deviation = theirs.fit(X, y).predict(new, return_std=True)
    ours = es.gp.EllipticalGPRegressor(RBF(0.7), noise_scale=0.4, draws=1000, chains=2, random_state=SEED + 6)
    found, spread = ours.fit(X, y).predict(new, return_std=True)
    # For Gaussian noise the draws are independent: 2000 draws, whose errors add up over 21 correlated points.
    assert np.abs(found - mean).max() < 5 * deviation.max() / np.sqrt(2000)
    np.testing.assert_allclose(spread, deviation, rtol=5 / np.sqrt(2 * 2000))


@pytest.mark.long
def test_outliers_are_left_aside():
    rng = np.random.default_rng(SEED + 7)
    X = rng.uniform(-3, 3, (80, 1))
    truth = np.sin(2 * X[:, 0])
    y = truth + 0.1 * rng.standard_normal(80)
    y[::8] += rng.choice([-5.0, 5.0], 10)
    errors = {}
    for noise in ("gaussian", "student-t"):
        model = es.gp.EllipticalGPRegressor(likelihood=noise, random_state=SEED + 8).fit(X, y)
        errors[noise] = np.sqrt(np.mean((model.predict(X) - truth) ** 2))
    theirs = GaussianProcessRegressor(1.0 * RBF(1.0) + WhiteKernel(0.1), normalize_y=True).fit(X, y)
    errors["scikit-learn"] = np.sqrt(np.mean((theirs.predict(X) - truth) ** 2))
    assert errors["student-t"] < 0.12
    assert errors["student-t"] < errors["gaussian"] / 2
    assert errors["student-t"] < errors["scikit-learn"] / 2


@pytest.mark.long
def test_counts():
    rng = np.random.default_rng(SEED + 9)
    X = rng.uniform(0, 6, (150, 1))
    rate = np.exp(0.5 + 1.5 * np.sin(X[:, 0]))
    y, held_out = rng.poisson(rate), rng.poisson(rate)
    model = es.gp.EllipticalGPRegressor(likelihood="poisson", random_state=SEED + 10).fit(X, y)
    found, deviation = model.predict(X, return_std=True)

    def score(predicted):
        """Return the log predictive density of each held-out count."""
        return held_out * np.log(predicted) - predicted

    theirs = np.maximum(GaussianProcessRegressor(1.0 * RBF(1.0), alpha=1.0).fit(X, y).predict(X), 0.05)
    not_worse(score(found) - score(theirs))
    assert score(found).mean() > score(np.full(150, y.mean())).mean() + 0.3
    assert np.mean(np.abs(found - rate) < 2 * deviation) > 0.7


@pytest.mark.long
def test_held_out_digits_beside_scikit_learn_s_laplace():
    digits = es.data.usps_3v5()
    rng = np.random.default_rng(SEED + 11)
    train, test = rng.permutation(767)[:150], rng.permutation(773)[:400]
    X, y, X_test, y_test = digits.x_train[train], digits.y_train[train], digits.x_test[test], digits.y_test[test]
    kernel = 3.5**2 * RBF(np.exp(2.0))
    theirs = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y).predict_proba(X_test)[:, 1]
    ours = es.gp.EllipticalGPClassifier(kernel, random_state=SEED + 12).fit(X, y).predict_proba(X_test)[:, 1]

    def scores(probability):
        return np.log(np.where(y_test > 0, probability, 1 - probability))

    not_worse(scores(ours) - scores(theirs))
    right = [np.mean((p > 0.5) == (y_test > 0)) for p in (ours, theirs)]
    assert right[0] > right[1] - 0.02
    assert right[0] > 0.9
    default = es.gp.EllipticalGPClassifier(random_state=SEED + 13).fit(X, y).predict_proba(X_test)[:, 1]
    not_worse(scores(default) - scores(theirs))


@pytest.mark.long
@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_classes_that_do_not_overlap(link):
    X = np.r_[np.linspace(-3, -1, 15), np.linspace(1, 3, 15)][:, None]
    y = np.sign(X[:, 0])
    model = es.gp.EllipticalGPClassifier(link=link, random_state=SEED + 14).fit(X, y)
    probability = model.predict_proba([[-2.0], [0.0], [2.0], [1e6]])[:, 1]
    assert probability[0] < 0.05
    assert 0.3 < probability[1] < 0.7
    assert probability[2] > 0.95
    assert probability[3] == pytest.approx(0.5, abs=1e-9)  # far from the data the probability is that of the prior
    assert (model.predict(X) == y).all()
    assert np.isfinite(model.parameters_["amplitude"]).all()

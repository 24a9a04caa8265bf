"""The estimators in the interface of scikit-learn."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import ellipslice as es

SMALL = {"draws": 20, "warmup": 5, "chains": 1, "ensemble_size": 2, "ensemble_refreshes": 1, "random_state": 0}


@pytest.mark.long
@parametrize_with_checks(
    [
        es.gp.EllipticalGPClassifier(**SMALL),
        es.gp.EllipticalGPRegressor(**SMALL),
        es.gp.EllipticalGPRegressor(likelihood="student-t", **SMALL),
    ]
)
def test_scikit_learn_s_own_checks(estimator, check):
    check(estimator)


def circle(count=60):
    X = np.random.default_rng(1).uniform(-2, 2, (count, 2))
    return X, np.where((X**2).sum(axis=1) < 2, "in", "out")


def test_a_pipeline_and_cross_validation():
    X, y = circle()
    model = make_pipeline(StandardScaler(), es.gp.EllipticalGPClassifier(**SMALL))
    assert cross_val_score(model, X * [1, 1000], y, cv=3).mean() > 0.8
    assert cross_val_score(model, X, y, cv=3, scoring="neg_log_loss").mean() > -0.5


def test_settings_can_be_searched():
    X, y = circle(40)
    search = GridSearchCV(es.gp.EllipticalGPClassifier(**SMALL), {"link": ["logistic", "probit"]}, cv=2).fit(X, y)
    assert set(search.cv_results_["param_link"]) == {"logistic", "probit"}


@pytest.mark.parametrize("kernel", [None, 2.0 * RBF(1.0)], ids=["default", "given"])
def test_a_fit_can_be_copied_and_repeated(kernel):
    X, y = circle(30)
    model = es.gp.EllipticalGPClassifier(kernel, **SMALL).fit(X, y)
    found = model.predict_proba(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), found)
    np.testing.assert_array_equal(clone(model).fit(X, y).predict_proba(X), found)
    other = clone(model).set_params(random_state=1).fit(X, y)
    assert not np.array_equal(other.predict_proba(X), found)


def test_three_classes_and_their_names():
    rng = np.random.default_rng(2)
    centres = np.array([[0, 3], [3, -2], [-3, -2]])
    labels = rng.integers(3, size=60)
    X, names = centres[labels] + rng.standard_normal((60, 2)), np.array(["red", "green", "blue"])
    model = es.gp.EllipticalGPClassifier(**SMALL).fit(X, names[labels])
    np.testing.assert_array_equal(model.classes_, ["blue", "green", "red"])
    np.testing.assert_array_equal(model.predict(centres), names)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert len(model.parameters_) == 3


def test_kernels_of_tinygp_and_functions_of_parameters():
    dist, kernels = pytest.importorskip("numpyro.distributions"), pytest.importorskip("tinygp.kernels")
    X = np.linspace(0, 5, 25)[:, None]
    y = np.sin(X[:, 0])
    fixed = es.gp.EllipticalGPRegressor(kernels.ExpSquared(1.0), noise_scale=0.1, **SMALL).fit(X, y)
    same = es.gp.EllipticalGPRegressor(RBF(1.0), noise_scale=0.1, **SMALL).fit(X, y)
    np.testing.assert_allclose(fixed.predict(X), same.predict(X), atol=1e-6)
    priors = {"scale": dist.LogNormal(0.0, 1.0)}
    model = es.gp.EllipticalGPRegressor(lambda scale: RBF(scale), parameters=priors, **SMALL).fit(X, y)
    assert set(model.parameters_) == {"scale", "noise_scale"}
    assert model.parameters_["scale"].shape == (1, 20)
    assert np.abs(model.predict(X) - y).max() < 0.2


def test_what_is_wrong_is_said_before_any_work():
    X, y = circle(20)
    for given, said in (
        ({"draws": 0}, "draws must be a whole number, 1 or more, but it is 0"),
        ({"link": "cauchit"}, "link must be 'logistic' or 'probit', but it is 'cauchit'"),
        ({"parameters": {"scale": 1}}, "a function of hyperparameters"),
    ):
        with pytest.raises(ValueError, match=said):
            es.gp.EllipticalGPClassifier(**given).fit(X, y)
    with pytest.raises(TypeError, match="kernel must be a kernel of scikit-learn or tinygp"):
        es.gp.EllipticalGPClassifier("rbf").fit(X, y)
    with pytest.raises(ValueError, match=r"y has only one class, in\. Expected at least two"):
        es.gp.EllipticalGPClassifier().fit(X, np.full(20, "in"))
    with pytest.raises(ValueError, match="likelihood must be 'gaussian', 'student-t' or 'poisson', but it is 'cauchy'"):
        es.gp.EllipticalGPRegressor(likelihood="cauchy").fit(X, X[:, 0])
    with pytest.raises(ValueError, match="noise_scale must be positive"):
        es.gp.EllipticalGPRegressor(noise_scale=-1.0).fit(X, X[:, 0])


@pytest.mark.parametrize("kernel", [lambda scale, noise_scale: noise_scale * RBF(scale), lambda p: RBF(p["scale"])])
@pytest.mark.parametrize("noise", [{}, {"noise_scale": 0.1}, {"likelihood": "poisson"}])
def test_a_kernels_hyperparameter_is_not_the_noise_scale(kernel, noise):
    """With two hyperparameters of one name, the kernel got that of the noise, and its own prior was ignored."""
    dist = pytest.importorskip("numpyro.distributions")
    X, y = np.linspace(0, 5, 6)[:, None], np.arange(6.0)
    priors = {name: dist.LogNormal(0.0, 1.0) for name in ("scale", "noise_scale")}
    with pytest.raises(ValueError, match="parameters has the name 'noise_scale', which belongs to the noise"):
        es.gp.EllipticalGPRegressor(kernel, parameters=priors, **noise, **SMALL).fit(X, y)


@pytest.mark.parametrize("kernel", [lambda scale: RBF(scale), lambda p: RBF(p["scale"])])
@pytest.mark.parametrize("estimator", ["EllipticalGPRegressor", "EllipticalGPClassifier"])
def test_a_hyperparameter_that_does_not_enter_the_kernel(kernel, estimator):
    dist = pytest.importorskip("numpyro.distributions")
    priors = {name: dist.LogNormal(0.0, 1.0) for name in ("scale", "more")}
    with pytest.raises(ValueError, match="the hyperparameter 'more' does not enter the kernel"):
        getattr(es.gp, estimator)(kernel, parameters=priors, **SMALL).fit(np.eye(4), [0, 1, 0, 1])


def test_a_kernel_that_is_no_covariance_is_named():
    class Wrong(RBF):
        def __call__(self, X, Y=None, eval_gradient=False):
            return 2.0 - 3.0 * super().__call__(X, Y)

        def diag(self, X):
            return np.ones(len(X))

    X, y = circle(20)
    with pytest.raises(ValueError, match="no positive definite covariance"):
        es.gp.EllipticalGPClassifier(Wrong(), **SMALL).fit(X, y)
    with pytest.raises(ValueError, match="no positive definite covariance"):
        es.gp.EllipticalGPRegressor(Wrong(), **SMALL).fit(X, X[:, 0])


@pytest.mark.long
def test_scikit_learn_is_needed_only_for_them():
    script = """
import sys
import ellipslice as es
assert "sklearn" not in sys.modules
assert not hasattr(es.gp, "EllipticalGPTransformer")
sys.modules["sklearn"] = None
try:
    es.gp.EllipticalGPClassifier
except ImportError as error:
    print(error)
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install 'ellipslice[sklearn]'" in found.stdout

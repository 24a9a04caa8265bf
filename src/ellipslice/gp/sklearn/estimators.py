"""Gaussian-process classification and regression as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

try:
    from sklearn.base import ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import validate_data
except ImportError as error:
    raise ImportError('the estimators need scikit-learn 1.6 or later: pip install "ellipslice[sklearn]".') from error

from ellipslice.gp.sklearn.base import EllipticalGP
from ellipslice.gp.sklearn.ensemble import at_new_inputs
from ellipslice.gp.sklearn.estimator_parameters import LogNormals
from ellipslice.likelihoods import Gaussian, Logistic, Poisson, Probit, StudentT

LINKS = {"logistic": Logistic, "probit": Probit}
LIKELIHOODS = ("gaussian", "student-t", "poisson")


class EllipticalGPClassifier(ClassifierMixin, EllipticalGP):
    """Classification by Gaussian processes, with draws from the posterior in place of Laplace's approximation.

    It takes the place of scikit-learn's `GaussianProcessClassifier`, with probabilities that are averages over the
    posterior, of the latent function and of the kernel's parameters. With more than two classes each is told from the
    rest by a latent function of its own, as there. For up to some thousand points: a fit takes O(n^3).

    Parameters
    ----------
    kernel : scikit-learn kernel, tinygp kernel or function, optional
        A kernel is taken as it is (nothing of it is optimised, where scikit-learn would). A function of unknown
        parameters returns one: `lambda length_scale: 4.0 * RBF(length_scale)`. By default a Matérn kernel with nu = 5/2
        of inputs that are scaled to deviation 1, whose amplitude and length scale are unknown.
    parameters : mapping of str to numpyro distribution, optional
        Priors of the parameters of a kernel that is a function.
    link : {"logistic", "probit"}
        From the latent function to the probability of a class.
    draws, warmup, chains : int
        Draws that are kept of each chain; updates of each before them; chains. Chains start near the posterior and
        hardly remember: a few hundred draws are many.
    ensemble_size, ensemble_refreshes : int
        Each chain has as many values of the unknown parameters at hand to choose from, and so many times in its run
        all but its own are drawn anew. Values cost O(n^3) each: they are most of the time of a fit.
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : array
        The labels.
    parameters_ : dict, or list of them
        Draws of the unknown parameters, (chains, draws); for more than two classes one dict for each.
    n_features_in_ : int

    Notes
    -----
    Nothing is compiled, so that fits to folds of ever new sizes are quick. For other likelihoods and for pictures use
    `LatentGP`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-3, 3, 40)[:, None]
    >>> y = np.where(np.abs(X[:, 0]) < 1.5, "inside", "outside")
    >>> model = EllipticalGPClassifier(random_state=1).fit(X, y)
    >>> model.predict([[0.0], [2.5]])
    array(['inside', 'outside'], dtype='<U7')
    >>> inside = model.predict_proba([[0.0], [1.5], [2.5]])[:, 0]
    >>> bool(inside[0] > 0.9), bool(0.2 < inside[1] < 0.8), bool(inside[2] < 0.1)
    (True, True, True)
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        link: str = "logistic",
        draws: int = 200,
        warmup: int = 50,
        chains: int = 2,
        ensemble_size: int = 8,
        ensemble_refreshes: int = 10,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.parameters = parameters
        self.link = link
        self.draws = draws
        self.warmup = warmup
        self.chains = chains
        self.ensemble_size = ensemble_size
        self.ensemble_refreshes = ensemble_refreshes
        self.random_state = random_state

    @np.errstate(under="ignore")  # products of small covariances, and small weights, are 0
    def fit(self, X: Any, y: Any) -> EllipticalGPClassifier:
        """Draw from the posterior given inputs X (n, axes) and labels y (n,)."""
        self._check_settings()
        if self.link not in LINKS:
            raise ValueError(f"link must be 'logistic' or 'probit', but it is {self.link!r}.")
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class only, {self.classes_[0]}; expected two or more.")
        self._set_scale(X)
        rng = self._generator(self.random_state)
        positive = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        self._draws = []
        for number in positive:
            seen = LINKS[self.link](np.where(labels == number, 1.0, -1.0))
            self._draws.append(self._draw(lambda _, seen=seen: seen, self._unknown(2.0, LogNormals({})), rng))
        found = [drawn.parameters() for drawn in self._draws]
        self.parameters_ = found[0] if len(found) == 1 else found
        return self

    @np.errstate(under="ignore")
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (m, classes), in the order of `classes_`, averaged over draws."""
        inputs = self._new(X)
        seen = LINKS[self.link](np.ones(len(inputs)))
        each = np.stack([self._expected(drawn, inputs, seen) for drawn in self._draws], axis=1)
        if each.shape[1] == 1:
            return np.hstack([1.0 - each, each])
        return each / each.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each input."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]


class EllipticalGPRegressor(RegressorMixin, EllipticalGP):
    """Regression by Gaussian processes: with noise of unknown size, with outliers, or of counts.

    Parameters
    ----------
    kernel, parameters, draws, warmup, chains, ensemble_size, ensemble_refreshes, random_state
        As for `EllipticalGPClassifier`.
    likelihood : {"gaussian", "student-t", "poisson"}
        "student-t" has heavy tails (Student's t with 4 degrees), so that outliers are left aside. "poisson" is for
        counts: the latent function is the logarithm of their rate over the mean rate.
    noise_scale : float, optional
        Size of the noise, in the units of y; unknown by default. It is the standard deviation of Gaussian noise.
    normalize_y : bool
        Whether the kernel is one of y with mean 0 and deviation 1 (for "student-t", median 0 and a spread that outliers
        hardly change), or of y as it is. Counts are never normalised.

    Attributes
    ----------
    parameters_ : dict
        Draws of the unknown parameters, (chains, draws). `noise_scale` is in the units of y.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(40)
    >>> y[::10] += 5.0
    >>> model = EllipticalGPRegressor(likelihood="student-t", random_state=1).fit(X, y)
    >>> mean, deviation = model.predict([[1.5], [4.5]], return_std=True)
    >>> mean.round()
    array([ 1., -1.])
    """

    _own_names = ("noise_scale",)

    def __init__(
        self,
        kernel: Any = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        likelihood: str = "gaussian",
        noise_scale: float | None = None,
        normalize_y: bool = True,
        draws: int = 200,
        warmup: int = 50,
        chains: int = 2,
        ensemble_size: int = 8,
        ensemble_refreshes: int = 10,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.parameters = parameters
        self.likelihood = likelihood
        self.noise_scale = noise_scale
        self.normalize_y = normalize_y
        self.draws = draws
        self.warmup = warmup
        self.chains = chains
        self.ensemble_size = ensemble_size
        self.ensemble_refreshes = ensemble_refreshes
        self.random_state = random_state

    @np.errstate(under="ignore")
    def fit(self, X: Any, y: Any) -> EllipticalGPRegressor:
        """Draw from the posterior given inputs X (n, axes) and observations y (n,)."""
        self._check_settings()
        if self.likelihood not in LIKELIHOODS:
            raise ValueError(f"likelihood must be 'gaussian', 'student-t' or 'poisson', but it is {self.likelihood!r}.")
        if self.noise_scale is not None and (self.likelihood == "poisson" or not self.noise_scale > 0):
            raise ValueError(f"noise_scale must be positive, and left out for counts; but it is {self.noise_scale!r}.")
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        self._set_scale(X)
        self._shift, self._unit = (
            _middle_and_spread(y, self.likelihood == "student-t") if self.normalize_y else (0.0, 1.0)
        )
        observed, others = self._observation(y)
        self._draws = self._draw(observed, self._unknown(1.0, others), self._generator(self.random_state))
        self.parameters_ = self._draws.parameters()
        if "noise_scale" in self.parameters_:
            self.parameters_["noise_scale"] = self.parameters_["noise_scale"] * self._unit
        return self

    def _observation(self, y: np.ndarray) -> tuple[Any, LogNormals]:
        """The likelihood as a function of parameters, and which of them only it has."""
        if self.likelihood == "poisson":
            self._shift, self._unit = np.log(max(y.mean(), 1e-12)), 1.0
            seen = Poisson(y, offset=self._shift)
            return (lambda _: seen), LogNormals({})
        normal = (y - self._shift) / self._unit
        known = None if self.noise_scale is None else self.noise_scale / self._unit
        kind = Gaussian if self.likelihood == "gaussian" else StudentT
        unknown = {} if known else {"noise_scale": (0.3 * _middle_and_spread(normal, True)[1], 1.0)}
        return (lambda values: kind(normal, known or values["noise_scale"])), LogNormals(unknown)

    @np.errstate(under="ignore")
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The posterior mean at each input; and, if asked for, the standard deviation of the function there.

        For counts both are of their rate. To a deviation of new observations belongs the noise, too.
        """
        inputs = self._new(X)
        first, second = np.zeros(len(inputs)), np.zeros(len(inputs))
        for mean, variance in at_new_inputs(self._kernel(), self._draws, self._inputs, inputs):
            if self.likelihood == "poisson":
                rate = np.exp(self._shift + mean + 0.5 * variance)
                first, second = first + rate.sum(axis=0), second + (rate**2 * np.exp(variance)).sum(axis=0)
            else:
                first, second = first + mean.sum(axis=0), second + (mean**2 + variance).sum(axis=0)
        first, second = first / self._draws.where.size, second / self._draws.where.size
        shift = 0.0 if self.likelihood == "poisson" else self._shift
        expected = shift + self._unit * first
        if not return_std:
            return expected
        return expected, self._unit * np.sqrt(np.maximum(second - first**2, 0.0))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.likelihood == "poisson"
        return tags


def _middle_and_spread(y: np.ndarray, robust: bool) -> tuple[float, float]:
    """Mean and deviation of y, or what outliers hardly change; a spread of 0 counts as 1."""
    if robust:
        low, middle, high = np.quantile(y, [0.1587, 0.5, 0.8413])
        return float(middle), float((high - low) / 2) or float(y.std()) or 1.0
    return float(y.mean()), float(y.std()) or 1.0

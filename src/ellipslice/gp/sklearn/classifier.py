"""`EllipticalGPClassifier`: Gaussian-process classification as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ellipslice.gp.sklearn.base import EllipticalGP
from ellipslice.gp.sklearn.estimator_parameters import LogNormals
from ellipslice.likelihoods import Logistic, Probit

LINKS = {"logistic": Logistic, "probit": Probit}


class EllipticalGPClassifier(ClassifierMixin, EllipticalGP):
    """Gaussian-process classifier that averages over draws from the posterior.

    It can replace scikit-learn's `GaussianProcessClassifier`, which uses the Laplace approximation. Probabilities are
    averages over the posterior of the latent function and of the kernel's hyperparameters. With more than two classes,
    each class is compared with all others (one-vs-rest). A fit costs O(n^3), so n should be at most a few thousand.

    Parameters
    ----------
    kernel : scikit-learn kernel, tinygp kernel or function, optional
        A kernel is used as it is: unlike in scikit-learn, its hyperparameters are not optimised. A function of
        hyperparameters must return a kernel: `lambda length_scale: 4.0 * RBF(length_scale)`. Default: a Matérn kernel
        with nu = 5/2 and unknown amplitude and length scale, for inputs scaled to mean 0 and standard deviation 1.
    parameters : mapping of str to numpyro distribution, optional
        Hyperparameters of a kernel that is a function, with their priors.
    link : {"logistic", "probit"}
        Link from the latent function to the probability of a class. Default: "logistic".
    draws, warmup, chains : int
        Number of draws per chain, number of discarded updates at the start of each chain, and number of chains.
        Defaults: 200, 50 and 2. Chains start close to the posterior and mix fast, so these are usually enough.
    ensemble_size : int
        Number of hyperparameter values that each chain chooses among. At least 2. Default: 8.
    ensemble_refreshes : int
        Number of times per run that all but the chain's current value are redrawn. Default: 10. Each value costs
        O(n^3), which dominates the time of a fit.
    random_state : int, RandomState or None
        Seed. An integer makes fits reproducible. Default: None.

    Attributes
    ----------
    classes_ : array, shape (classes,)
        The labels.
    parameters_ : dict of str to array, or list of dict
        Draws of the hyperparameters, each of shape (chains, draws). With more than two classes, one dict per class. The
        length scale of the default kernel is in units of the scaled inputs.
    n_features_in_ : int
        Number of input axes.

    Notes
    -----
    The default priors are log-normal, and the logarithms have standard deviation 0.7. The amplitude has median 2. The
    length scale has median sqrt(axes), in units of the scaled inputs.

    No code is compiled, so fits to data of many sizes, as in cross-validation, are fast. Use `LatentGP` for other
    likelihoods, plots and stored runs.

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

    @np.errstate(under="ignore")  # underflow to 0 is harmless here: tiny covariances and weights
    def fit(self, X: Any, y: Any) -> EllipticalGPClassifier:
        """Draw from the posterior.

        Parameters
        ----------
        X : array, shape (n, axes)
            Inputs.
        y : array, shape (n,)
            Labels, of at least two classes.

        Returns
        -------
        EllipticalGPClassifier
            The fitted estimator itself.

        Raises
        ------
        ValueError
            If settings or data are not as described.
        """
        self._check_settings()
        if self.link not in LINKS:
            raise ValueError(f"link must be 'logistic' or 'probit', but it is {self.link!r}.")
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has only one class, {self.classes_[0]}. Expected at least two.")
        self._set_scale(X)
        rng = self._generator(self.random_state)
        positive = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        self._draws = []
        for number in positive:
            likelihood = LINKS[self.link](np.where(labels == number, 1.0, -1.0))
            unknown = self._unknown(2.0, LogNormals({}))
            self._draws.append(self._draw(lambda _, likelihood=likelihood: likelihood, unknown, rng))
        found = [drawn.parameters() for drawn in self._draws]
        self.parameters_ = found[0] if len(found) == 1 else found
        return self

    @np.errstate(under="ignore")
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, averaged over draws.

        Parameters
        ----------
        X : array, shape (m, axes)
            New inputs.

        Returns
        -------
        array, shape (m, classes)
            Columns are in the order of `classes_`.
        """
        inputs = self._new_inputs(X)
        likelihood = LINKS[self.link](np.ones(len(inputs)))
        each = np.stack([self._expected(drawn, inputs, likelihood) for drawn in self._draws], axis=1)
        if each.shape[1] == 1:
            return np.hstack([1.0 - each, each])
        return each / each.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable label of each input, shape (m,)."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

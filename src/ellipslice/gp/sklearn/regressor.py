"""`EllipticalGPRegressor`: Gaussian-process regression as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from ellipslice.gp.sklearn.base import EllipticalGP
from ellipslice.gp.sklearn.ensemble import at_new_inputs
from ellipslice.gp.sklearn.estimator_parameters import LogNormals
from ellipslice.likelihoods import Gaussian, Poisson, StudentT

LIKELIHOODS = ("gaussian", "student-t", "poisson")


class EllipticalGPRegressor(RegressorMixin, EllipticalGP):
    """Gaussian-process regressor for data with Gaussian noise, with outliers, or for counts.

    Predictions are averages over draws from the posterior of the latent function and the hyperparameters. A fit costs
    O(n^3), so n should be at most a few thousand.

    Parameters
    ----------
    kernel, parameters, draws, warmup, chains, ensemble_size, ensemble_refreshes, random_state
        Options of `EllipticalGPClassifier`, with the same defaults.
    likelihood : {"gaussian", "student-t", "poisson"}
        Distribution of an observation. Default: "gaussian". "student-t" has heavy tails (4 degrees of freedom), so
        outliers have little influence. "poisson" is for counts: the latent function is the logarithm of the rate
        relative to the mean of y.
    noise_scale : float, optional
        Noise scale in the units of y: the standard deviation of Gaussian noise, or the scale of Student-t noise.
        Positive. Default: unknown, with a prior. Not for counts.
    normalize_y : bool
        Whether the kernel describes y scaled to mean 0 and standard deviation 1, or y itself. Default: True. For
        "student-t", the median and half the central 68 % interval replace them. Counts are never scaled.

    Attributes
    ----------
    parameters_ : dict of str to array
        Draws of the hyperparameters, each of shape (chains, draws). `noise_scale` is in the units of y. Those of the
        default kernel are in units of the scaled y and the scaled inputs.
    n_features_in_ : int
        Number of input axes.

    Notes
    -----
    The default priors are log-normal:

    - amplitude: median 1, in units of the scaled y; standard deviation of the logarithm 0.7
    - length scale: median sqrt(axes), in units of the scaled inputs; standard deviation of the logarithm 0.7
    - noise scale: median 0.3 times half the central 68 % interval of y; standard deviation of the logarithm 1

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(40)
    >>> y[::10] += 5.0
    >>> model = EllipticalGPRegressor(likelihood="student-t", random_state=1).fit(X, y)
    >>> mean, std = model.predict([[1.5], [4.5]], return_std=True)
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
        """Draw from the posterior.

        Parameters
        ----------
        X : array, shape (n, axes)
            Inputs.
        y : array, shape (n,)
            Observations. Counts must be whole numbers, at least 0.

        Returns
        -------
        EllipticalGPRegressor
            The fitted estimator itself.

        Raises
        ------
        ValueError
            If settings or data are not as described.
        """
        self._check_settings()
        if self.likelihood not in LIKELIHOODS:
            raise ValueError(f"likelihood must be 'gaussian', 'student-t' or 'poisson', but it is {self.likelihood!r}.")
        if self.noise_scale is not None and (self.likelihood == "poisson" or not self.noise_scale > 0):
            raise ValueError(
                f"noise_scale must be positive, or None for likelihood='poisson', but it is {self.noise_scale!r}."
            )
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        self._set_scale(X)
        self._shift, self._unit = (
            _middle_and_spread(y, self.likelihood == "student-t") if self.normalize_y else (0.0, 1.0)
        )
        likelihood, others = self._observation_model(y)
        self._draws = self._draw(likelihood, self._unknown(1.0, others), self._generator(self.random_state))
        self.parameters_ = self._draws.parameters()
        if "noise_scale" in self.parameters_:
            self.parameters_["noise_scale"] = self.parameters_["noise_scale"] * self._unit
        return self

    def _observation_model(self, y: np.ndarray) -> tuple[Any, LogNormals]:
        """Return the likelihood as a function of hyperparameters, and its own hyperparameters."""
        if self.likelihood == "poisson":
            self._shift, self._unit = np.log(max(y.mean(), 1e-12)), 1.0
            counts = Poisson(y, offset=self._shift)
            return (lambda _: counts), LogNormals({})
        normal = (y - self._shift) / self._unit
        known = None if self.noise_scale is None else self.noise_scale / self._unit
        kind = Gaussian if self.likelihood == "gaussian" else StudentT
        unknown = {} if known else {"noise_scale": (0.3 * _middle_and_spread(normal, True)[1], 1.0)}
        return (lambda values: kind(normal, known or values["noise_scale"])), LogNormals(unknown)

    @np.errstate(under="ignore")
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the posterior mean of the latent function at each input; for counts, that of the rate.

        Parameters
        ----------
        X : array, shape (m, axes)
            New inputs.
        return_std : bool
            Whether to return the posterior standard deviation as well. Default: False. It does not include the noise
            of a new observation.

        Returns
        -------
        array, shape (m,), or a pair of these
        """
        inputs = self._new_inputs(X)
        first, second = np.zeros(len(inputs)), np.zeros(len(inputs))
        for mean, variance in at_new_inputs(self._kernel(), self._draws, self._inputs, inputs):
            if self.likelihood == "poisson":
                rate = np.exp(self._shift + mean + 0.5 * variance)
                first, second = first + rate.sum(axis=0), second + (rate**2 * np.exp(variance)).sum(axis=0)
            else:
                first, second = first + mean.sum(axis=0), second + (mean**2 + variance).sum(axis=0)
        first, second = first / self._draws.member.size, second / self._draws.member.size
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
    """Return mean and standard deviation of y, or, if robust, its median and half its central 68 % interval.

    A spread of 0 is replaced by 1, so that y can be divided by it.
    """
    if robust:
        low, middle, high = np.quantile(y, [0.1587, 0.5, 0.8413])
        return float(middle), float((high - low) / 2) or float(y.std()) or 1.0
    return float(y.mean()), float(y.std()) or 1.0

"""The base class of the scikit-learn estimators: settings, kernel, scaled inputs and draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ellipslice.checks import whole_number
from ellipslice.gp.sklearn.ensemble import EnsembleDraws, EnsembleSettings, at_new_inputs, draw
from ellipslice.gp.sklearn.estimator_parameters import JoinedParameters, LogNormals
from ellipslice.likelihoods import Likelihood
from ellipslice.parameters.named_arguments import ParameterFunction
from ellipslice.parameters.parameters import Parameters
from ellipslice.priors.parts.kernels import is_kernel

QUADRATURE = np.polynomial.hermite_e.hermegauss(15)
"""Nodes and weights of Gauss-Hermite quadrature, for expectations over f at a new input given a draw."""


class EllipticalGP(BaseEstimator):
    """Base class of the estimators, with checks of settings, the kernel, scaled inputs, draws and expectations."""

    kernel: Any
    parameters: Any
    draws: int
    warmup: int
    chains: int
    ensemble_size: int
    ensemble_refreshes: int
    _own_names: ClassVar[tuple[str, ...]] = ()
    """Names of the likelihood's hyperparameters, known or unknown. Those of the kernel must have other names."""

    def _check_settings(self) -> None:
        """Raise if a number is not a whole number in its range, or if `parameters` is given without a function."""
        for name, least in (
            ("draws", 1),
            ("warmup", 0),
            ("chains", 1),
            ("ensemble_size", 2),
            ("ensemble_refreshes", 1),
        ):
            whole_number(name, getattr(self, name), least, f"a whole number, {least} or more")
        if self.parameters and (self.kernel is None or is_kernel(self.kernel)):
            raise ValueError(
                "parameters is for a kernel that is a function of hyperparameters: kernel=lambda length_scale: "
                "RBF(length_scale). Give such a function, or leave parameters out."
            )

    def _set_scale(self, X: np.ndarray) -> None:
        """Scale inputs to mean 0 and standard deviation 1 for the default kernel, and otherwise not at all."""
        if self.kernel is None:
            std = X.std(axis=0)
            self._centre, self._input_std = X.mean(axis=0), np.where(std > 0, std, 1.0)
        else:
            self._centre, self._input_std = np.zeros(X.shape[1]), np.ones(X.shape[1])
        self._inputs = self._scaled(X)

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return (X - self._centre) / self._input_std

    def _kernel(self) -> Any:
        """Return the kernel as a function of a mapping of hyperparameters."""
        if self.kernel is None:
            return _default_kernel
        if is_kernel(self.kernel):
            return lambda _: self.kernel
        if isinstance(self.kernel, type) or not callable(self.kernel):
            raise TypeError(
                "kernel must be a kernel of scikit-learn or tinygp, or a function of hyperparameters that returns "
                f"one, but it is {self.kernel!r}."
            )
        return ParameterFunction("kernel", self.kernel, list(self.parameters or {}))

    def _unknown(self, amplitude: float, others: LogNormals) -> JoinedParameters:
        """Return all hyperparameters: those of the kernel, and `others`. `amplitude` is the default prior median."""
        if self.kernel is None:
            length_scale = np.sqrt(self._inputs.shape[1])  # distances of scaled inputs grow like this
            return JoinedParameters(
                LogNormals({"amplitude": (amplitude, 0.7), "length_scale": (length_scale, 0.7)}), others
            )
        if not self.parameters:
            return JoinedParameters(others)
        parameters = Parameters(self.parameters)
        self._check_names(parameters)
        return JoinedParameters(parameters, others)

    def _check_names(self, parameters: Parameters) -> None:
        """Raise for a name that belongs to the likelihood, and for one that the kernel does not use."""
        if clash := set(parameters.priors) & set(self._own_names):
            raise ValueError(
                f"parameters has the name {clash.pop()!r}, which belongs to the noise. Expected hyperparameters of the "
                "kernel. Rename it. If you want to fix the noise scale, give noise_scale=..."
            )
        kernel = self._kernel()
        used = set(kernel.by_name)
        if kernel.takes_all:
            middle, _ = parameters.gaussian()
            used = kernel.used(parameters.constrained(middle))
        if unused := [name for name in parameters.priors if name not in used]:
            raise ValueError(
                f"the hyperparameter {unused[0]!r} does not enter the kernel. Leave it out of parameters, or name it "
                "as an argument of the kernel's function."
            )

    def _draw(self, likelihood: Any, unknown: JoinedParameters, rng: np.random.Generator) -> EnsembleDraws:
        settings = EnsembleSettings(self.ensemble_size, self.ensemble_refreshes, self.draws, self.warmup, self.chains)
        return draw(self._kernel(), likelihood, unknown, self._inputs, settings, rng)

    def _generator(self, random_state: Any) -> np.random.Generator:
        return np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))

    def _new_inputs(self, X: Any) -> np.ndarray:
        """Return new inputs, checked and scaled. Raise if the estimator is not fitted."""
        check_is_fitted(self)
        checked: Any = validate_data(self, X, reset=False, dtype=np.float64)
        return self._scaled(checked)

    def _expected(self, drawn: EnsembleDraws, inputs: np.ndarray, likelihood: Likelihood) -> np.ndarray:
        """Return the mean of an observation at each new input, averaged over draws, shape (m,)."""
        nodes, weights = QUADRATURE
        total = np.zeros(len(inputs))
        for mean, variance in at_new_inputs(self._kernel(), drawn, self._inputs, inputs):
            for node, weight in zip(nodes, weights / weights.sum(), strict=True):
                total += weight * likelihood.expected(mean + np.sqrt(variance) * node).sum(axis=0)
        return total / drawn.member.size


def _default_kernel(values: Mapping[str, Any]) -> Any:
    """Return the Matérn kernel with nu = 5/2 for these hyperparameters."""
    return ConstantKernel(values["amplitude"] ** 2) * Matern(values["length_scale"], nu=2.5)

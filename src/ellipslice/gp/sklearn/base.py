"""What the scikit-learn estimators share: settings, kernel, scaled inputs and draws."""

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
"""Nodes and weights for expectations over what is left unknown of a latent value given a draw."""


class EllipticalGP(BaseEstimator):
    """Base class of the estimators: checks of settings, the kernel, scaled inputs, draws and expectations."""

    kernel: Any
    parameters: Any
    draws: int
    warmup: int
    chains: int
    ensemble_size: int
    ensemble_refreshes: int
    _own_names: ClassVar[tuple[str, ...]] = ()
    """Hyperparameters that the observations have, whether they are unknown or not."""

    def _check_settings(self) -> None:
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
                "parameters are unknown parameters of a kernel that is a function of them: kernel=lambda length_scale: "
                "RBF(length_scale). Leave them out, or give such a function."
            )

    def _set_scale(self, X: np.ndarray) -> None:
        """The default kernel is one of inputs with mean 0 and deviation 1; others take inputs as they are."""
        if self.kernel is None:
            deviation = X.std(axis=0)
            self._centre, self._deviation = X.mean(axis=0), np.where(deviation > 0, deviation, 1.0)
        else:
            self._centre, self._deviation = np.zeros(X.shape[1]), np.ones(X.shape[1])
        self._inputs = self._scaled(X)

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return (X - self._centre) / self._deviation

    def _kernel(self) -> Any:
        """The kernel as a function of a mapping of parameters."""
        if self.kernel is None:
            return _default_kernel
        if is_kernel(self.kernel):
            return lambda _: self.kernel
        if isinstance(self.kernel, type) or not callable(self.kernel):
            raise TypeError(
                f"kernel must be a kernel of scikit-learn or tinygp, or a function of parameters that returns one; it "
                f"is {self.kernel!r}."
            )
        return ParameterFunction("kernel", self.kernel, list(self.parameters or {}))

    def _unknown(self, amplitude: float, others: LogNormals) -> JoinedParameters:
        if self.kernel is None:
            length_scale = np.sqrt(self._inputs.shape[1])  # inputs of deviation 1 are about as far apart
            return JoinedParameters(
                LogNormals({"amplitude": (amplitude, 0.7), "length_scale": (length_scale, 0.7)}), others
            )
        if not self.parameters:
            return JoinedParameters(others)
        parameters = Parameters(self.parameters)
        self._check_names(parameters)
        return JoinedParameters(parameters, others)

    def _check_names(self, parameters: Parameters) -> None:
        """Refuse a name that is not the kernel's alone, and one that the kernel does not use."""
        if clash := set(parameters.priors) & set(self._own_names):
            raise ValueError(
                f"parameters has the name {clash.pop()!r}, which belongs to the noise. Expected hyperparameters of the "
                "kernel. Rename it; noise_scale=... is for a noise scale that is known."
            )
        called = self._kernel()
        used = set(called.by_name)
        if called.takes_all:
            middle, _ = parameters.gaussian()
            used = called.used(parameters.constrained(middle))
        if unused := [name for name in parameters.priors if name not in used]:
            raise ValueError(
                f"the parameter {unused[0]!r} does not enter the kernel. Leave it out, or name it as an argument of "
                "the kernel's function."
            )

    def _draw(self, likelihood: Any, unknown: JoinedParameters, rng: np.random.Generator) -> EnsembleDraws:
        settings = EnsembleSettings(self.ensemble_size, self.ensemble_refreshes, self.draws, self.warmup, self.chains)
        return draw(self._kernel(), likelihood, unknown, self._inputs, settings, rng)

    def _generator(self, random_state: Any) -> np.random.Generator:
        return np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))

    def _new(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        checked: Any = validate_data(self, X, reset=False, dtype=np.float64)
        return self._scaled(checked)

    def _expected(self, drawn: EnsembleDraws, inputs: np.ndarray, seen: Likelihood) -> np.ndarray:
        """What is observed at new inputs on average over draws."""
        nodes, weights = QUADRATURE
        total = np.zeros(len(inputs))
        for mean, variance in at_new_inputs(self._kernel(), drawn, self._inputs, inputs):
            for node, weight in zip(nodes, weights / weights.sum(), strict=True):
                total += weight * seen.expected(mean + np.sqrt(variance) * node).sum(axis=0)
        return total / drawn.where.size


def _default_kernel(values: Mapping[str, Any]) -> Any:
    """A Matérn kernel: its functions have two derivatives."""
    return ConstantKernel(values["amplitude"] ** 2) * Matern(values["length_scale"], nu=2.5)

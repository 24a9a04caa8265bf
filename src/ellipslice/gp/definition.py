"""The definition of a Gaussian-process model: kernels, means, likelihood and hyperparameters, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ellipslice.gp.components import LIKELIHOOD, Components, check_names
from ellipslice.likelihoods import Likelihood
from ellipslice.parameters.joint import JointModel
from ellipslice.parameters.kernel_factors import KernelFactors
from ellipslice.parameters.named_arguments import ParameterFunction, kernel_function
from ellipslice.parameters.parameters import Parameters


class ModelDefinition:
    """Checked parts of a `LatentGP`. Its parameters are those of `LatentGP`.

    Attributes
    ----------
    parameters : Parameters
        The hyperparameters with their priors.
    kernels : dict of str to ParameterFunction
        The kernel of each latent function, as a function of hyperparameters.
    means : dict of str to ParameterFunction or float
        The mean of each latent function.
    likelihood : ParameterFunction
        From y and hyperparameters to the log-likelihood.
    joint : JointModel
        The joint prior of hyperparameters and latent functions.
    components : Components
        What each hyperparameter enters.
    shared : tuple of str
    """

    def __init__(
        self,
        kernel: Any,
        likelihood: Callable[..., Any],
        *,
        mean: Any = 0.0,
        parameters: Mapping[str, Any] | None = None,
        shared: Sequence[str] = (),
    ):
        if not callable(likelihood) or isinstance(likelihood, Likelihood):
            raise TypeError(
                f"likelihood must be a class or a function of y, such as es.likelihoods.Poisson, but it is "
                f"{likelihood!r}. Give the data to fit, not to the likelihood."
            )
        self.parameters = Parameters(parameters)
        names = list(self.parameters.priors)
        kernels = dict(kernel) if isinstance(kernel, Mapping) else {"f": kernel}
        if not kernels:
            raise ValueError("kernel is an empty mapping. Expected at least one name with its kernel.")
        check_names(list(kernels), names)
        means = dict(mean) if isinstance(mean, Mapping) else dict.fromkeys(kernels, mean)
        if unknown := set(means) - set(kernels):
            raise ValueError(
                f"mean has the name {unknown.pop()!r}, but the latent functions are {', '.join(kernels)}. Use their "
                "names."
            )
        self.kernels = {name: kernel_function(f"the kernel of {name}", given, names) for name, given in kernels.items()}
        self.means = {
            name: ParameterFunction(f"the mean of {name}", given, names, extra=("X",))
            if callable(given)
            else float(given)
            for name, given in ((name, means.get(name, 0.0)) for name in kernels)
        }
        self.likelihood = ParameterFunction("likelihood", likelihood, names, first=("y",))
        self.joint = JointModel(self.parameters, KernelFactors(self.parameters, self.kernels, self.means))
        functions = self._functions(isinstance(kernel, Mapping), isinstance(mean, Mapping))
        self.components = Components(functions, self.parameters, shared)
        self.shared = self.components.shared

    def _functions(self, named: bool, each_mean: bool) -> dict[str, ParameterFunction]:
        """Return the functions that hyperparameters are passed to, by component.

        A mean that all latent functions share is one component.
        """
        components = {f"kernel of {name}" if named else "kernel": kernel for name, kernel in self.kernels.items()}
        for name, mean in self.means.items():
            if isinstance(mean, ParameterFunction):
                components.setdefault(f"mean of {name}" if each_mean else "mean", mean)
        return {**components, LIKELIHOOD: self.likelihood}

"""Find the components of a model (kernels, means, likelihood) that each hyperparameter enters, and check them.

Hyperparameters are passed by argument name. `StudentT(y, noise_scale, degrees_of_freedom)` has an argument
`noise_scale`, and so may a kernel. One hyperparameter would then enter both, and the posterior would be wrong without a
warning. A name that matches in two components is therefore an error unless the user has named it in `shared`.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ellipslice.likelihoods.arguments import without_label_warning
from ellipslice.parameters.named_arguments import ParameterFunction
from ellipslice.parameters.parameters import Parameters

Entered = dict[str, list[str]]
"""Components that each hyperparameter enters: {"length_scale": ["kernel"], "noise_scale": ["likelihood"]}."""

LIKELIHOOD = "likelihood"
"""Name of the component that is the likelihood."""


def check_names(latents: list[str], parameters: list[str]) -> None:
    """Raise if a name is not an identifier, is used twice, or has another meaning in results or mean functions."""
    for name in latents:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(
                f"kernel has the name {name!r}. Expected a valid name of an argument, because the likelihood receives "
                "the latent function by it."
            )
    if clash := set(latents) & set(parameters):
        raise ValueError(f"{clash.pop()!r} is the name of a latent function and of a hyperparameter. Rename one.")
    if "X" in parameters:
        raise ValueError("parameters has the name 'X', by which a mean function receives the inputs. Rename it.")
    for argument, names in (("kernel", latents), ("parameters", parameters)):
        for name in names:
            if name in ("chain", "draw", "point"):
                raise ValueError(f"{argument} has the name {name!r}, which is a dimension of the result. Rename it.")
    if latents[0] in ("expected", "predictive") and len(latents) == 1:
        raise ValueError(f"kernel has the name {latents[0]!r}, which is a variable of predictions. Rename it.")


def as_shared(shared: Any, names: Iterable[str]) -> tuple[str, ...]:
    """Return `shared` as a tuple of names. Raise unless each is the name of a hyperparameter."""
    if isinstance(shared, str):
        raise TypeError(f"shared must be a sequence of names, but it is {shared!r}. Write shared=({shared!r},).")
    try:
        given = tuple(shared)
    except TypeError:
        raise TypeError(
            f"shared must be a sequence of names, such as ('length_scale',), but it is {shared!r}."
        ) from None
    known = list(names)
    for name in given:
        if name not in known:
            raise ValueError(
                f"shared has {name!r}, but the hyperparameters are: {', '.join(known) or 'none'}. Use one of these "
                "names, or leave it out."
            )
    return given


def entered_components(names: Iterable[str], used: Mapping[str, Iterable[str]]) -> Entered:
    """Return the components that each name enters, from the names that each component uses."""
    return {name: [component for component, found in used.items() if name in found] for name in names}


class Components:
    """The functions of a model that hyperparameters are passed to, and what each hyperparameter enters.

    Parameters
    ----------
    functions : mapping of str to ParameterFunction
        The components: kernels, means and the likelihood, by the names that messages use.
    parameters : Parameters
        The hyperparameters.
    shared : sequence of str
        Names that may enter several components.

    Attributes
    ----------
    shared : tuple of str
    entered : dict of str to list of str, or None
        The components of each hyperparameter. None before `probe` if a function takes all hyperparameters in a mapping.
    """

    def __init__(self, functions: Mapping[str, ParameterFunction], parameters: Parameters, shared: Any):
        self._functions, self._parameters = dict(functions), parameters
        self.shared = as_shared(shared, parameters.priors)
        self._by_mapping = any(function.takes_all for function in self._functions.values())
        by_name = {component: function.by_name for component, function in self._functions.items()}
        named = entered_components(parameters.priors, by_name)
        check_shared(named, self.shared, self._functions)
        self.entered: Entered | None = None
        if not self._by_mapping:  # functions of a mapping must be called to find what they read from it: see `probe`
            check_complete(named, self.shared, self._functions)
            self.entered = named

    def probe(self, inputs: np.ndarray, y: Any) -> Entered:
        """Return the components of each hyperparameter. Raise if one enters none, or several and is not in `shared`.

        Functions that take all hyperparameters in a mapping are called once, with the medians of the priors.
        """
        if not self._by_mapping:
            return self.entered or {}
        middle, _ = self._parameters.gaussian()
        values = self._parameters.constrained(middle)
        used = {}
        for component, function in self._functions.items():
            first, extra = ((y,), {}) if component == LIKELIHOOD else ((), {"X": inputs})
            with without_label_warning():  # it is built again for the run, and warns about its data then
                used[component] = function.used(values, *first, **extra)
        self.entered = entered_components(self._parameters.priors, used)
        check_shared(self.entered, self.shared, self._functions)
        check_complete(self.entered, self.shared, self._functions)
        return self.entered


def check_shared(entered: Entered, shared: Iterable[str], components: Mapping[str, ParameterFunction]) -> None:
    """Raise for a hyperparameter that enters several components and is not in `shared`."""
    for name, where in entered.items():
        if len(where) > 1 and name not in shared:
            raise ValueError(_several_components_message(name, where, components))


def check_complete(entered: Entered, shared: Iterable[str], components: Mapping[str, ParameterFunction]) -> None:
    """Raise for a hyperparameter that enters no component, and for one in `shared` that enters only one."""
    for name, where in entered.items():
        if not where:
            reason = ""
            for component, function in components.items():
                if name in function.fixed:
                    reason = f" (functools.partial gives it a known value in the {component})"
                elif function.takes_all:
                    reason = reason or (
                        f" (the {component}'s argument {function.all_in!r} is not the name of one, so it was given all "
                        "of them in a mapping)"
                    )
            raise ValueError(
                f"the hyperparameter {name!r} enters neither kernel, mean nor likelihood{reason}. Leave it out of "
                "parameters, or name it as an argument of one of them."
            )
        if name in shared and len(where) == 1:
            raise ValueError(
                f"shared has {name!r}, but it enters the {where[0]} only. Name it as an argument of the others, too, "
                "or leave it out of shared."
            )


def described(entered: Entered) -> str:
    """Return the hyperparameters and their components as text, such as "amplitude (kernel), s (kernel and mean)"."""
    return ", ".join(f"{name} ({_join_words(where)})" if where else name for name, where in entered.items())


def _join_words(words: list[str], prefix: str = "") -> str:
    """Return "a, b and c" from a list of words, each with the prefix."""
    parts = [prefix + word for word in words]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _several_components_message(name: str, where: list[str], components: Mapping[str, ParameterFunction]) -> str:
    """Return the message for a name that matches in several components."""
    return (
        f"the hyperparameter {name!r} would enter {_join_words(where, 'the ')}, because each of them has an argument "
        "of that name. Expected one of them for each name. If all of them use the same quantity, give "
        f"shared=({name!r},). If not, {_renaming_advice(name, where, components)}"
    )


def _renaming_advice(name: str, where: list[str], components: Mapping[str, ParameterFunction]) -> str:
    """Return advice on how to write the model so that the name matches in one component."""
    last = components[where[-1]]
    if where[-1] == LIKELIHOOD and isinstance(last.function, type) and name in last.by_name:
        given, other = last.function.__name__, f"likelihood_{name}"
        known = "its default value" if last.has_default(name) else "a known value"
        example = f"{given}(y)" if last.has_default(name) else f"{given}(y, {name}=...)"
        return (
            f"give the likelihood's own {name} another name, with a prior in parameters: likelihood=lambda y, {other}: "
            f"{given}(y, {name}={other}); or {known}: likelihood=lambda y: {example}."
        )
    return "rename the argument in all but one of them, and give each name a prior in parameters."

"""Find which hyperparameter enters kernel, mean or likelihood, and check that none enters two by accident.

Hyperparameters are passed by argument name. `StudentT(y, noise_scale, degrees_of_freedom)` has an argument
`noise_scale`, and so may a kernel. One hyperparameter would then enter both, and the posterior would be wrong without a
warning. So a name that matches in two places is an error unless the user has named it in `shared`.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ellipslice.likelihoods.arguments import without_label_warning
from ellipslice.parameters.named_arguments import ParameterFunction
from ellipslice.parameters.parameters import Parameters

Enters = dict[str, list[str]]
"""For each hyperparameter the places that it enters: {"length_scale": ["kernel"], "noise_scale": ["likelihood"]}."""

LIKELIHOOD = "likelihood"


def check_names(latents: list[str], parameters: list[str]) -> None:
    """Raise for names that the result, a prediction or a mean function has for something else."""
    for name in latents:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"kernel has the name {name!r}; expected one that an argument of the likelihood can have.")
    if clash := set(latents) & set(parameters):
        raise ValueError(f"{clash.pop()!r} is the name of a latent function and of a parameter. Rename one.")
    if "X" in parameters:
        raise ValueError("parameters has the name 'X', by which a mean function receives the inputs. Rename it.")
    for what, names in (("kernel", latents), ("parameters", parameters)):
        for name in names:
            if name in ("chain", "draw", "point"):
                raise ValueError(f"{what} has the name {name!r}, which is a dimension of the result. Rename it.")
    if latents[0] in ("expected", "predictive") and len(latents) == 1:
        raise ValueError(f"kernel has the name {latents[0]!r}, which is a variable of predictions. Rename it.")


def as_shared(shared: Any, names: Iterable[str]) -> tuple[str, ...]:
    """Return `shared` as a tuple of names; raise unless each is the name of a hyperparameter."""
    if isinstance(shared, str):
        raise TypeError(f"shared must be a sequence of names: shared=({shared!r},).")
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
                f"shared has {name!r}, but the names in parameters are: {', '.join(known) or 'none'}. Name a "
                "hyperparameter, or leave it out."
            )
    return given


def enters(names: Iterable[str], used: Mapping[str, Iterable[str]]) -> Enters:
    """Turn the names that each place uses into the places that each name enters."""
    return {name: [place for place, found in used.items() if name in found] for name in names}


class Places:
    """The functions of a model that hyperparameters are passed to, and which of them each one enters.

    Parameters
    ----------
    functions : mapping of str to ParameterFunction
        The kernels, means and the likelihood, by what they are to the user.
    parameters : Parameters
        The hyperparameters.
    shared : sequence of str
        Names that are meant to enter several places.

    Attributes
    ----------
    shared : tuple of str
    entered : dict of str to list of str, or None
        The places of each hyperparameter. None until `probe`, if a function takes all hyperparameters in a mapping.
    """

    def __init__(self, functions: Mapping[str, ParameterFunction], parameters: Parameters, shared: Any):
        self._functions, self._parameters = dict(functions), parameters
        self.shared = as_shared(shared, parameters.priors)
        self._by_mapping = any(function.takes_all for function in self._functions.values())
        named = enters(parameters.priors, {place: function.by_name for place, function in self._functions.items()})
        check_shared(named, self.shared, self._functions)
        self.entered: Enters | None = None
        if not self._by_mapping:  # else it is known when they are called
            check_complete(named, self.shared, self._functions)
            self.entered = named

    def probe(self, inputs: np.ndarray, y: Any) -> Enters:
        """Return the places of each hyperparameter; raise if one enters several by accident, or none.

        Functions that take all hyperparameters in a mapping are called with the middle of the priors.
        """
        if not self._by_mapping:
            return self.entered or {}
        middle, _ = self._parameters.gaussian()
        values = self._parameters.constrained(middle)
        used = {}
        for place, function in self._functions.items():
            first, extra = ((y,), {}) if place == LIKELIHOOD else ((), {"X": inputs})
            with without_label_warning():  # a likelihood warns about its data when it is made to be used
                used[place] = function.used(values, *first, **extra)
        self.entered = enters(self._parameters.priors, used)
        check_shared(self.entered, self.shared, self._functions)
        check_complete(self.entered, self.shared, self._functions)
        return self.entered


def check_shared(entered: Enters, shared: Iterable[str], places: Mapping[str, ParameterFunction]) -> None:
    """Raise for a hyperparameter that enters several places and is not in `shared`."""
    for name, where in entered.items():
        if len(where) > 1 and name not in shared:
            raise ValueError(_accident(name, where, places))


def check_complete(entered: Enters, shared: Iterable[str], places: Mapping[str, ParameterFunction]) -> None:
    """Raise for a hyperparameter that enters nothing, and for one in `shared` that enters one place only."""
    for name, where in entered.items():
        if not where:
            because = ""
            for place, called in places.items():
                if name in called.fixed:
                    because = f" (functools.partial gives it a known value in the {place})"
                elif called.takes_all:
                    because = because or (
                        f" (the {place}'s argument {called.all_in!r} is not the name of one, and was given all of them "
                        "in a mapping)"
                    )
            raise ValueError(
                f"the parameter {name!r} enters neither kernel, mean nor likelihood{because}. Leave it out, or name it "
                "as an argument of one of them."
            )
        if name in shared and len(where) == 1:
            raise ValueError(
                f"shared has {name!r}, but it enters the {where[0]} only. Name it as an argument of the others too, or "
                "leave it out of shared."
            )


def described(entered: Enters) -> str:
    """The hyperparameters and their places, for people: "amplitude (kernel), s (kernel and mean)"."""
    return ", ".join(f"{name} ({_and(where)})" if where else name for name, where in entered.items())


def _and(parts: list[str], the: str = "") -> str:
    parts = [the + part for part in parts]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _accident(name: str, where: list[str], places: Mapping[str, ParameterFunction]) -> str:
    """What was given, what was expected and what to do, for a name that matches in several places."""
    return (
        f"the hyperparameter {name!r} would enter {_and(where, 'the ')}, because each of them takes one of that name. "
        f"Expected one place for each name. If one quantity is meant to be in all of these places, say so: "
        f"shared=({name!r},). If not, {_renamed(name, where, places)}"
    )


def _renamed(name: str, where: list[str], places: Mapping[str, ParameterFunction]) -> str:
    """How to write the model so that the name matches in one place."""
    called = places[where[-1]]
    if where[-1] == LIKELIHOOD and isinstance(called.function, type) and name in called.by_name:
        given, other = called.function.__name__, f"likelihood_{name}"
        known = "its default value" if called.has_default(name) else "a known value"
        example = f"{given}(y)" if called.has_default(name) else f"{given}(y, {name}=...)"
        return (
            f"give the likelihood's own {name} another name, with a prior in parameters: likelihood=lambda y, {other}: "
            f"{given}(y, {name}={other}); or {known}: likelihood=lambda y: {example}."
        )
    return "rename the argument in all but one of them, and give each name a prior in parameters."

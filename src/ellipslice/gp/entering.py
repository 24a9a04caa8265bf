"""Which hyperparameter enters what, and the check that none enters two places by accident.

Hyperparameters are passed by argument name. `StudentT(y, scale, degrees)` has an argument `scale`, and so may a kernel:
a length scale would then be the noise scale as well, and the posterior would be wrong without a word. So a name that
matches in two places is an error unless the user has named it in `shared`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ellipslice.parameters.named_arguments import Called

Enters = dict[str, list[str]]
"""For each hyperparameter the places that it enters: {"scale": ["kernel"], "sigma": ["likelihood"]}."""

LIKELIHOOD = "likelihood"


def as_shared(shared: Any, names: Iterable[str]) -> tuple[str, ...]:
    """Return `shared` as a tuple of names; raise unless each is the name of a hyperparameter."""
    if isinstance(shared, str):
        raise TypeError(f"shared must be a sequence of names: shared=({shared!r},).")
    try:
        given = tuple(shared)
    except TypeError:
        raise TypeError(f"shared must be a sequence of names, such as ('scale',), but it is {shared!r}.") from None
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


def check_shared(entered: Enters, shared: Iterable[str], places: Mapping[str, Called]) -> None:
    """Raise for a hyperparameter that enters several places and is not in `shared`."""
    for name, where in entered.items():
        if len(where) > 1 and name not in shared:
            raise ValueError(_accident(name, where, places))


def check_complete(entered: Enters, shared: Iterable[str], places: Mapping[str, Called]) -> None:
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
    """The hyperparameters and their places, for people: "amplitude (kernel), scale (kernel and likelihood)"."""
    return ", ".join(f"{name} ({_and(where)})" if where else name for name, where in entered.items())


def _and(parts: list[str], the: str = "") -> str:
    parts = [the + part for part in parts]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _accident(name: str, where: list[str], places: Mapping[str, Called]) -> str:
    """What was given, what was expected and what to do, for a name that matches in several places."""
    return (
        f"the hyperparameter {name!r} would enter {_and(where, 'the ')}, because each of them takes one of that name. "
        f"Expected one place for each name. If one quantity is meant to be in all of these places, say so: "
        f"shared=({name!r},). If not, {_renamed(name, where, places)}"
    )


def _renamed(name: str, where: list[str], places: Mapping[str, Called]) -> str:
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

"""How a user's functions of the parameters are called: with those that they name, or with all of them in a mapping."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ellipslice.priors.kernels import is_kernel


class Called:
    """A function of some of the parameters, and of what else is at hand.

    Parameters
    ----------
    what : str
        What it is to the user, for errors.
    function : callable
        Its arguments are names of parameters (`lambda amplitude, scale: ...`) or of what is at hand; one argument of
        any other name is given all parameters in a mapping (`lambda p: p["amplitude"] * ...`).
    names : sequence of str
        The parameters there are.
    first : sequence of str
        What is at hand and is handed over first, by position.
    extra : sequence of str
        What is at hand and is handed over if there is an argument of that name.
    """

    def __init__(
        self, what: str, function: Callable[..., Any], names: Any, first: tuple[str, ...] = (), extra: Any = ()
    ):
        self.function = function
        self._by_name: list[str] = []
        self._extra: list[str] = []
        self._all_in: str | None = None
        names = list(names)
        try:
            arguments = list(inspect.signature(function).parameters.values())[len(first) :]
        except (TypeError, ValueError):
            arguments = []  # some builtins do not say
        for argument in arguments:
            if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
                continue
            if argument.name in names:
                self._by_name.append(argument.name)
            elif argument.name in extra:
                self._extra.append(argument.name)
            elif argument.default is argument.empty:
                if self._all_in is not None or not names:
                    known = ", ".join([*names, *extra]) or "none are given"
                    raise TypeError(
                        f"{what} has an argument {argument.name!r} that is not a parameter (they are: {known}). Name "
                        "it in parameters, with its prior, or give it a default value."
                    )
                self._all_in = argument.name

    @property
    def takes_all(self) -> bool:
        """Whether it is given all parameters, of which it may use any."""
        return self._all_in is not None

    def used(self, values: Mapping[str, Any], *first: Any, **extra: Any) -> set[str]:
        """The parameters that it uses, seen by calling it."""
        noted = _Noted(values)
        if self.takes_all:
            self._call(noted, first, extra)
        return {*self._by_name, *noted.seen}

    def __call__(self, values: Mapping[str, Any], *first: Any, **extra: Any) -> Any:
        return self._call(values, first, extra)

    def _call(self, values: Mapping[str, Any], first: tuple[Any, ...], extra: dict[str, Any]) -> Any:
        arguments = {name: values[name] for name in self._by_name} | {name: extra[name] for name in self._extra}
        if self._all_in is not None:
            arguments[self._all_in] = values
        return self.function(*first, **arguments)


class _Noted(dict):
    """A mapping that remembers what was asked for."""

    def __init__(self, values: Mapping[str, Any]):
        super().__init__(values)
        self.seen: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.seen.add(name)
        return super().__getitem__(name)


def called_kernel(what: str, kernel: Any, names: list[str]) -> Called:
    """A kernel as a function of the parameters."""
    if isinstance(kernel, type) or not callable(kernel):
        given = f"the class {kernel.__name__}" if isinstance(kernel, type) else f"a {type(kernel).__name__}"
        raise TypeError(
            f"{what} must be a kernel of tinygp or scikit-learn, or a function that returns one; not {given}."
        )
    if is_kernel(kernel):
        return Called(what, _Known(kernel), names)
    return Called(what, kernel, names)


class _Known:
    """A function of no parameters that returns a kernel; pickle can send it to workers."""

    def __init__(self, kernel: Any):
        self._kernel = kernel

    def __call__(self) -> Any:
        return self._kernel

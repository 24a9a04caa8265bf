"""Call users' functions by the names of their arguments: with hyperparameters, and with latent functions.

A function receives the hyperparameters that it names, or all of them in a mapping.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ellipslice.likelihoods import Likelihood, LinearPredictor
from ellipslice.priors.parts.kernels import is_kernel


class ParameterFunction:
    """A function of some of the parameters, and of what else is at hand.

    Parameters
    ----------
    what : str
        What it is to the user, for errors.
    function : callable
        Its arguments are names of parameters (`lambda amplitude, length_scale: ...`) or of what is at hand; one
        argument of any other name is given all parameters in a mapping (`lambda p: p["amplitude"] * ...`).
    names : sequence of str
        The parameters there are.
    first : sequence of str
        What is at hand and is handed over first, by position.
    extra : sequence of str
        What is at hand and is handed over if there is an argument of that name.

    Attributes
    ----------
    all_in : str or None
        The argument that is given all parameters in a mapping.
    fixed : frozenset of str
        Arguments that `functools.partial` gives a value. Nothing is passed to them.
    """

    def __init__(
        self, what: str, function: Callable[..., Any], names: Any, first: tuple[str, ...] = (), extra: Any = ()
    ):
        self.function, self._what = function, what
        self.fixed = frozenset(function.keywords) if isinstance(function, functools.partial) else frozenset()
        self._by_name: list[str] = []
        self._extra: list[str] = []
        self.all_in: str | None = None
        names = list(names)
        try:
            arguments = list(inspect.signature(function).parameters.values())[len(first) :]
        except (TypeError, ValueError):
            arguments = []  # some builtins do not say
        for argument in arguments:
            if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD) or argument.name in self.fixed:
                continue
            if argument.name in names:
                self._by_name.append(argument.name)
            elif argument.name in extra:
                self._extra.append(argument.name)
            elif argument.default is argument.empty:
                if self.all_in is not None or not names or _is_ready_made(function):
                    known = ", ".join([*names, *extra]) or "none are given"
                    ours = getattr(function, "__name__", None) if _is_ready_made(function) else None
                    value = f"a value: lambda y: {ours}(y, {argument.name}=...)" if ours else "a default value"
                    raise TypeError(
                        f"{what} has an argument {argument.name!r} that is not a parameter (they are: {known}). Name "
                        f"it in parameters, with its prior, or give it {value}."
                    )
                self.all_in = argument.name

    @property
    def takes_all(self) -> bool:
        """Whether it is given all parameters, of which it may use any."""
        return self.all_in is not None

    @property
    def by_name(self) -> tuple[str, ...]:
        """The parameters that it names as arguments."""
        return tuple(self._by_name)

    def has_default(self, name: str) -> bool:
        """Whether its argument of this name has a default value."""
        argument = inspect.signature(self.function).parameters[name]
        return argument.default is not argument.empty

    def used(self, values: Mapping[str, Any], *first: Any, **extra: Any) -> set[str]:
        """The parameters that it uses: those that it names, and those it reads from the mapping when it is called."""
        noted = _RecordingMapping(values)
        if self.takes_all:
            try:
                self._call(noted, first, extra)
            except Exception as error:
                error.add_note(
                    f"raised by {self._what}, whose argument {self.all_in!r} is not the name of a hyperparameter "
                    f"(they are: {', '.join(values)}) and was given all of them in a mapping"
                )
                raise
        return {*self._by_name, *noted.seen}

    def __call__(self, values: Mapping[str, Any], *first: Any, **extra: Any) -> Any:
        return self._call(values, first, extra)

    def _call(self, values: Mapping[str, Any], first: tuple[Any, ...], extra: dict[str, Any]) -> Any:
        arguments = {name: values[name] for name in self._by_name} | {name: extra[name] for name in self._extra}
        if self.all_in is not None:
            arguments[self.all_in] = values
        return self.function(*first, **arguments)


class _RecordingMapping(dict):
    """A mapping that remembers what was asked for, in whatever way; who asks for all of it uses all of it."""

    def __init__(self, values: Mapping[str, Any]):
        super().__init__(values)
        self.seen: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.seen.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.seen.update({name} & set(self.keys()))
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        self.seen.update({name} & set(self.keys()))
        return super().pop(name, *default)

    def __iter__(self) -> Iterator[str]:  # without one of its own, **p and dict(p) would not call __getitem__
        return super().__iter__()

    def items(self) -> Any:
        self.seen.update(super().keys())
        return super().items()

    def values(self) -> Any:
        self.seen.update(super().keys())
        return super().values()

    def copy(self) -> dict[str, Any]:
        return dict(self.items())

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()


def _is_ready_made(function: Any) -> bool:
    """Whether it is one of our own likelihoods, whose arguments are numbers and never a mapping."""
    while isinstance(function, functools.partial):
        function = function.func
    ours = isinstance(function, type) and issubclass(function, Likelihood)
    return ours and function.__module__.startswith("ellipslice.")


def called_kernel(what: str, kernel: Any, names: list[str]) -> ParameterFunction:
    """A kernel as a function of the parameters."""
    if isinstance(kernel, type) or not callable(kernel):
        given = f"the class {kernel.__name__}" if isinstance(kernel, type) else f"a {type(kernel).__name__}"
        raise TypeError(
            f"{what} must be a kernel of tinygp or scikit-learn, or a function that returns one; not {given}."
        )
    if is_kernel(kernel):
        return ParameterFunction(what, _Known(kernel), names)
    return ParameterFunction(what, kernel, names)


class _Known:
    """A function of no parameters that returns a kernel; pickle can send it to workers."""

    def __init__(self, kernel: Any):
        self._kernel = kernel

    def __call__(self) -> Any:
        return self._kernel


def check_latents(log_likelihood: Any, latents: Sequence[str]) -> None:
    """Raise if what the user's `likelihood` returned cannot be called with the latent functions."""
    names = ", ".join(latents)
    if list(latents) == ["f"] or isinstance(log_likelihood, LinearPredictor):
        return
    if isinstance(log_likelihood, Likelihood):
        if len(latents) > 1:
            given = type(log_likelihood).__name__
            raise TypeError(
                f"{log_likelihood!r} takes one latent function, but the model has {names}. Say how they enter, such as "
                f"likelihood=lambda y: lambda {names}: {given}(y)({' + '.join(latents)})."
            )
        return
    try:
        inspect.signature(log_likelihood).bind(**dict.fromkeys(latents))
    except TypeError as error:
        raise TypeError(
            f"what likelihood returns is called with the latent functions by name, {names}, and cannot be: {error}. "
            f"Name its arguments so: likelihood=lambda y: lambda {names}: ..."
        ) from None
    except ValueError:
        return  # some builtins do not say


def call_with_latents(log_likelihood: Any, latents: Mapping[str, Any]) -> Any:
    """Return the log-likelihood of latent functions. They are passed by name, but to a likelihood of ours."""
    if list(latents) == ["f"] or isinstance(log_likelihood, Likelihood):
        (only,) = latents.values()
        return log_likelihood(only)
    return log_likelihood(latents) if isinstance(log_likelihood, LinearPredictor) else log_likelihood(**latents)

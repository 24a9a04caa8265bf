"""Call users' functions with the hyperparameters or latent functions that their arguments name.

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
    """A user's function of hyperparameters, called with those that it names.

    Parameters
    ----------
    description : str
        Description of the function, for messages.
    function : callable
        Its arguments are names of hyperparameters (`lambda amplitude, length_scale: ...`), or names in `first` and
        `extra`. One argument of any other name receives all hyperparameters in a mapping (`lambda p: p["amplitude"] *
        ...`).
    names : sequence of str
        All hyperparameters of the model.
    first : sequence of str
        Arguments that are passed first, by position.
    extra : sequence of str
        Arguments that are passed by name if the function has them.

    Attributes
    ----------
    function : callable
    all_in : str or None
        The argument that receives all hyperparameters in a mapping.
    fixed : frozenset of str
        Arguments that `functools.partial` sets. Nothing is passed to them.

    Raises
    ------
    TypeError
        If an argument without a default has a name that is not known, and cannot be the mapping.
    """

    def __init__(
        self, description: str, function: Callable[..., Any], names: Any, first: tuple[str, ...] = (), extra: Any = ()
    ):
        self.function, self._description = function, description
        self.fixed = frozenset(function.keywords) if isinstance(function, functools.partial) else frozenset()
        self._by_name: list[str] = []
        self._extra: list[str] = []
        self.all_in: str | None = None
        names = list(names)
        try:
            arguments = list(inspect.signature(function).parameters.values())[len(first) :]
        except (TypeError, ValueError):
            arguments = []  # some builtins have no signature
        for argument in arguments:
            if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD) or argument.name in self.fixed:
                continue
            if argument.name in names:
                self._by_name.append(argument.name)
            elif argument.name in extra:
                self._extra.append(argument.name)
            elif argument.default is argument.empty:
                if self.all_in is not None or not names or _is_own_likelihood(function):
                    known = ", ".join([*names, *extra]) or "none are given"
                    ours = getattr(function, "__name__", None) if _is_own_likelihood(function) else None
                    value = f"a value: lambda y: {ours}(y, {argument.name}=...)" if ours else "a default value"
                    raise TypeError(
                        f"{description} has an argument {argument.name!r} that is not a hyperparameter (they are: "
                        f"{known}). Name it in parameters, with its prior, or give it {value}."
                    )
                self.all_in = argument.name

    @property
    def takes_all(self) -> bool:
        """True if the function receives all hyperparameters in a mapping, of which it may use any."""
        return self.all_in is not None

    @property
    def by_name(self) -> tuple[str, ...]:
        """Names of the hyperparameters that are arguments of the function."""
        return tuple(self._by_name)

    def has_default(self, name: str) -> bool:
        """Return whether the argument of this name has a default value."""
        argument = inspect.signature(self.function).parameters[name]
        return argument.default is not argument.empty

    def used(self, values: Mapping[str, Any], *first: Any, **extra: Any) -> set[str]:
        """Return the names of the hyperparameters that the function uses.

        These are its arguments and, if it takes a mapping, the names that it reads when it is called with `values`.
        """
        recorded = _RecordingMapping(values)
        if self.takes_all:
            try:
                self._call(recorded, first, extra)
            except Exception as error:
                error.add_note(
                    f"raised by {self._description}, whose argument {self.all_in!r} is not the name of a "
                    f"hyperparameter (they are: {', '.join(values)}), so it was given all of them in a mapping"
                )
                raise
        return {*self._by_name, *recorded.read}

    def __call__(self, values: Mapping[str, Any], *first: Any, **extra: Any) -> Any:
        return self._call(values, first, extra)

    def _call(self, values: Mapping[str, Any], first: tuple[Any, ...], extra: dict[str, Any]) -> Any:
        arguments = {name: values[name] for name in self._by_name} | {name: extra[name] for name in self._extra}
        if self.all_in is not None:
            arguments[self.all_in] = values
        return self.function(*first, **arguments)


class _RecordingMapping(dict):
    """A dict that records which names are read, by any method. Reading all values records all names."""

    def __init__(self, values: Mapping[str, Any]):
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.update({name} & set(self.keys()))
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        self.read.update({name} & set(self.keys()))
        return super().pop(name, *default)

    def __iter__(self) -> Iterator[str]:  # without this override, **p and dict(p) would not call __getitem__
        return super().__iter__()

    def items(self) -> Any:
        self.read.update(super().keys())
        return super().items()

    def values(self) -> Any:
        self.read.update(super().keys())
        return super().values()

    def copy(self) -> dict[str, Any]:
        return dict(self.items())

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()


def _is_own_likelihood(function: Any) -> bool:
    """Return whether it is a class of `es.likelihoods`, whose arguments are numbers and never a mapping."""
    while isinstance(function, functools.partial):
        function = function.func
    ours = isinstance(function, type) and issubclass(function, Likelihood)
    return ours and function.__module__.startswith("ellipslice.")


def kernel_function(description: str, kernel: Any, names: list[str]) -> ParameterFunction:
    """Return a kernel, or a function that returns one, as a function of hyperparameters. Raise if it is neither."""
    if isinstance(kernel, type) or not callable(kernel):
        given = f"the class {kernel.__name__}" if isinstance(kernel, type) else f"a {type(kernel).__name__}"
        raise TypeError(
            f"{description} must be a kernel of tinygp or scikit-learn, or a function that returns one, but it is "
            f"{given}."
        )
    if is_kernel(kernel):
        return ParameterFunction(description, _ConstantKernel(kernel), names)
    return ParameterFunction(description, kernel, names)


class _ConstantKernel:
    """A function without arguments that returns a kernel. Unlike a lambda it can be pickled, for workers."""

    def __init__(self, kernel: Any):
        self._kernel = kernel

    def __call__(self) -> Any:
        return self._kernel


def check_latents(log_likelihood: Any, latents: Sequence[str]) -> None:
    """Raise if the log-likelihood that the user's `likelihood` returned cannot be called with the latent functions."""
    names = ", ".join(latents)
    if list(latents) == ["f"] or isinstance(log_likelihood, LinearPredictor):
        return
    if isinstance(log_likelihood, Likelihood):
        if len(latents) > 1:
            given = type(log_likelihood).__name__
            raise TypeError(
                f"{log_likelihood!r} takes one latent function, but the model has {names}. Give a function of all of "
                f"them, such as likelihood=lambda y: lambda {names}: {given}(y)({' + '.join(latents)})."
            )
        return
    try:
        inspect.signature(log_likelihood).bind(**dict.fromkeys(latents))
    except TypeError as error:
        raise TypeError(
            f"the function that likelihood returns must take the latent functions by name, {names}, but: {error}. "
            f"Use these names for its arguments: likelihood=lambda y: lambda {names}: ..."
        ) from None
    except ValueError:
        return  # some builtins have no signature to check


def call_with_latents(log_likelihood: Any, latents: Mapping[str, Any]) -> Any:
    """Return the log-likelihood of latent functions, passed by name, or by position to a class of `es.likelihoods`."""
    if list(latents) == ["f"] or isinstance(log_likelihood, Likelihood):
        (only,) = latents.values()
        return log_likelihood(only)
    return log_likelihood(latents) if isinstance(log_likelihood, LinearPredictor) else log_likelihood(**latents)

"""Select what is stored of each state: the latents, or the result of the user's `keep`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax
import numpy as np

from ellipslice.engines.rows import DeviceStates
from ellipslice.posterior import CentredLikelihood
from ellipslice.programs.traced import over_axes

Kept = dict[str, np.ndarray]
"""Stored arrays by name."""


class StateSelector:
    """Map from centred flat states to the named arrays that are stored.

    Names and shapes are those of the first state. If `keep` later returns different ones, a ValueError is raised.

    Attributes
    ----------
    example : dict of arrays
        Stored values of the first state, with a leading axis of length 1.
    """

    def __init__(
        self, centred: CentredLikelihood, function: Callable[..., Any] | Literal[False] | None, first: np.ndarray
    ):
        if function is not None and function is not False and not callable(function):
            raise TypeError(
                "keep must be a function of f, such as lambda f: f[:10], or False to store only statistics, but it is "
                f"{function!r}."
            )
        self._centred = centred
        self._function: Callable[..., Any] | Literal[False] | None = function
        self._shapes: dict[str, tuple[int, ...]] | None = None
        self._traced: Callable[[Any], Mapping[str, Any]] | None = None
        self._tried_to_trace = False
        self.example = self(first[None])
        self._shapes = {name: values.shape[1:] for name, values in self.example.items()}
        empty = [name for name, shape in self._shapes.items() if 0 in shape]
        if empty:
            raise ValueError(
                f"keep returned {empty[0]} of shape {self._shapes[empty[0]]}, which has no elements. Return at least "
                "one element, or leave the variable out. keep=False stores only statistics."
            )

    def __call__(self, f: np.ndarray | DeviceStates) -> Kept:
        """Return what is stored of states of shape (..., size), by name. Leading axes are preserved."""
        if self._function is False:
            return {}
        if isinstance(f, DeviceStates):
            return self._on_device(f)
        if self._function is None:
            return self._centred.unpack(f)
        flat = f.reshape(-1, f.shape[-1])
        flat.flags.writeable = False  # a function that changes its argument would change the chain
        if hasattr(self._function, "of_rows"):  # that of `LatentGP`, for which a call per state takes much longer
            kept = self._function.of_rows(self._centred.unpack(flat)["f"])
            return {name: values.reshape(*f.shape[:-1], *values.shape[1:]) for name, values in kept.items()}
        rows = [self._row(self._function, state) for state in flat]
        return {
            name: np.stack([row[name] for row in rows]).reshape(*f.shape[:-1], *rows[0][name].shape) for name in rows[0]
        }

    def _on_device(self, states: DeviceStates) -> Kept:
        """Return what is stored of states on a device. The function runs there if it can be compiled."""
        rows = slice(states.first, states.stop)
        there = self.of_block(states.buffer) if states.kept is None else states.kept
        if there is None:
            kept = self(np.asarray(states.buffer)[rows])
        else:
            kept = {name: np.asarray(values)[rows] for name, values in there.items()}
        return {name: np.moveaxis(values, 1, 0) for name, values in kept.items()}

    def of_block(self, buffer: Any) -> Mapping[str, Any] | None:
        """Compute what is stored of states on a device there. Return None if JAX cannot trace the user's function.

        The buffer has the shape (rows, chains, size), and the results (rows, chains, ...).
        """
        if self._function is not None and self._function is not False and not self._tried_to_trace:
            self._traced, self._tried_to_trace = self._try_to_trace(buffer), True
        return None if self._traced is None else self._traced(buffer)

    def _try_to_trace(self, f: Any) -> Callable[[Any], Mapping[str, Any]] | None:
        """Return the user's function compiled; None if JAX cannot trace it, or if the results differ."""

        def one(state: Any) -> Mapping[str, Any]:
            return self._named(self._centred.apply(self._function, state))  # type: ignore[arg-type]

        traced = jax.jit(over_axes(one, 2))
        try:
            there = traced(f[:1, :1])
            here = self(np.asarray(f[0, :1]))
            same = all(np.allclose(np.asarray(there[name])[0], here[name], rtol=1e-3, atol=1e-3) for name in here)
        except Exception:  # noqa: BLE001  a user's function may raise anything for a tracer
            return None
        return traced if same else None

    def _row(self, function: Callable[..., Any], state: np.ndarray) -> Kept:
        """Return the checked result of the user's function for one state."""
        try:
            result = self._centred.apply(function, state)
        except Exception as error:
            error.add_note("raised by the function given as keep")
            raise
        row = {name: _numbers(name, value) for name, value in self._named(result).items()}
        if self._shapes is not None:
            self._check_same(row, self._shapes)
        return row

    def _named(self, result: Any) -> Mapping[str, Any]:
        """Return the result of the user's function as a mapping. Raise if a name is invalid."""
        if not isinstance(result, Mapping):
            return {"f": result}
        if not result:
            raise ValueError("keep returned an empty dict: nothing would be stored. Return at least one array.")
        for name in result:
            if not isinstance(name, str) or name in ("chain", "draw"):
                raise ValueError(
                    f"keep returned a variable with the name {name!r}, but a name must be a string other than chain "
                    "and draw, the dimensions of the result. Choose another name."
                )
        return result

    def _check_same(self, row: Kept, shapes: dict[str, tuple[int, ...]]) -> None:
        """Raise if names or shapes differ from those of the first state."""
        if row.keys() != shapes.keys():
            raise ValueError(
                f"keep returned {', '.join(row)} for this draw, but {', '.join(shapes)} for the first. Return the same "
                "names for every draw."
            )
        for name, value in row.items():
            if value.shape != shapes[name]:
                raise ValueError(
                    f"keep returned {name} of shape {value.shape} for this draw, but {shapes[name]} for the first. "
                    "Return the same shape for every draw; use NaN for missing values."
                )


def _numbers(name: str, value: Any) -> np.ndarray:
    """Return a variable as an array of numbers. Raise if it is none."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(
            f"keep must return rectangular arrays, but {name} has rows of different lengths: {value!r}."
        ) from None
    if array.dtype.kind not in "fiub":
        raise TypeError(f"keep must return numbers or a dict of numbers, but {name} is a {type(value).__name__}.")
    return array

"""What is stored of each state: the latents, or what the user's `keep` makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ellipslice.posterior import CentredLikelihood

Kept = dict[str, np.ndarray]


class Keep:
    """Maps centred flat states, shape (count, size), to named arrays with `count` rows.

    Names and shapes are those of the first state; a function that returns others later on is refused then.
    """

    def __init__(self, centred: CentredLikelihood, function: Callable[..., Any] | None, first: np.ndarray):
        if function is not None and not callable(function):
            raise TypeError(f"keep must be a function of the latent, such as lambda f: f[:10], but it is {function!r}.")
        self._centred, self._function = centred, function
        self._shapes: dict[str, tuple[int, ...]] | None = None
        self.example = self(first[None])
        self._shapes = {name: values.shape[1:] for name, values in self.example.items()}

    def __call__(self, f: np.ndarray) -> Kept:
        if self._function is None:
            return self._centred.unpack(f)
        f = f.view()
        f.flags.writeable = False  # a function that changes its argument would change the chain
        rows = [self._row(self._function, state) for state in f]
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}

    def _row(self, function: Callable[..., Any], state: np.ndarray) -> Kept:
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
        if not isinstance(result, Mapping):
            return {"f": result}
        if not result:
            raise ValueError("keep returned an empty dict: nothing would be stored. Return at least one array.")
        for name in result:
            if not isinstance(name, str) or name in ("chain", "draw"):
                raise ValueError(
                    f"keep names {name!r}, but a variable needs a string for its name, and chain and draw are "
                    "dimensions of the result. Choose another name."
                )
        return result

    def _check_same(self, row: Kept, shapes: dict[str, tuple[int, ...]]) -> None:
        if row.keys() != shapes.keys():
            raise ValueError(
                f"keep returned {', '.join(row)} for this draw and {', '.join(shapes)} for the first. It must return "
                "the same names every time."
            )
        for name, value in row.items():
            if value.shape != shapes[name]:
                raise ValueError(
                    f"keep returned {name} of shape {value.shape} for this draw and {shapes[name]} for the first. It "
                    "must return the same shape every time; mark what is missing with NaN."
                )


def _numbers(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"keep must return arrays, but {name} is not rectangular: {value!r}.") from None
    if array.dtype.kind not in "fiub":
        raise TypeError(f"keep must return numbers, or a dict of them, but {name} is a {type(value).__name__}.")
    return array

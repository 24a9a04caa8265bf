"""Makes our dataclasses pytrees, so that compiled code takes them as arguments.

A compiled function is compiled once per *structure*: change the arrays inside a prior or a likelihood and the
compiled code is used again; change a static field and it is compiled anew.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import jax

C = TypeVar("C", bound=type)


def static(**options: Any) -> Any:
    """A dataclass field that is part of the structure: hashable, compared by value, never traced."""
    return dataclasses.field(metadata={"static": True}, **options)


def pytree(cls: C) -> C:
    """Class decorator: a frozen dataclass whose fields are leaves, except those marked `static()`.

    `__init__` may validate and convert; JAX rebuilds instances without calling it.
    """
    cls = dataclasses.dataclass(frozen=True, repr=False, eq=False, init=False)(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    fixed = tuple(field.name for field in dataclasses.fields(cls) if field.metadata.get("static"))
    free = tuple(name for name in names if name not in fixed)

    def flatten(item: Any) -> tuple[Any, Any]:
        return [getattr(item, name) for name in free], tuple(getattr(item, name) for name in fixed)

    def flatten_with_keys(item: Any) -> tuple[Any, Any]:
        return [(jax.tree_util.GetAttrKey(name), getattr(item, name)) for name in free], flatten(item)[1]

    def unflatten(structure: Any, leaves: Any) -> Any:
        item = object.__new__(cls)
        set_fields(item, **dict(zip(free, leaves, strict=True)), **dict(zip(fixed, structure, strict=True)))
        return item

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def set_fields(item: Any, **values: Any) -> None:
    """Set the fields of a frozen dataclass from inside its own `__init__`."""
    for name, value in values.items():
        object.__setattr__(item, name, value)


class HostOnly:
    """A value inside a pytree that compiled code must not see: it has no leaves, and its structure is always the same.

    So a new value neither compiles code anew nor is kept alive by JAX's caches. (A static field would do both: it is
    compared.) An instance that JAX has rebuilt is empty, and raises when it is asked for its value.
    """

    def __init__(self, value: Any):
        self._value: tuple[Any, ...] = (value,)

    @property
    def value(self) -> Any:
        """The value, outside compiled code."""
        if not self._value:
            raise RuntimeError("a value for the host alone was asked for where JAX has rebuilt the object around it.")
        return self._value[0]


def _without_value(structure: None, leaves: Any) -> HostOnly:
    item = object.__new__(HostOnly)
    item._value = ()
    return item


jax.tree_util.register_pytree_node(HostOnly, lambda item: ((), None), _without_value)

"""Make dataclasses pytrees, so that compiled functions take them as arguments.

JAX compiles a function once per structure. If the arrays inside a prior or a likelihood change, the compiled code is
used again; if a static field changes, JAX compiles the function again.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, TypeVar

import jax
import numpy as np

C = TypeVar("C", bound=type)

_FIELDS: dict[type, tuple[str, ...]] = {}
"""Classes that are pytrees, with the names of their fields that are not static."""


def static(**options: Any) -> Any:
    """Return a dataclass field that is part of the structure: hashable, compared by value, never traced."""
    return dataclasses.field(metadata={"static": True}, **options)


def pytree(cls: C) -> C:
    """Decorate a class to make it a frozen dataclass and a pytree.

    Its fields are leaves, except those marked `static()`. `__init__` may check and convert its arguments; JAX rebuilds
    instances without calling it.
    """
    cls = dataclasses.dataclass(frozen=True, repr=False, eq=False, init=False)(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    static_names = tuple(field.name for field in dataclasses.fields(cls) if field.metadata.get("static"))
    leaf_names = tuple(name for name in names if name not in static_names)

    def flatten(item: Any) -> tuple[Any, Any]:
        return [_fresh(getattr(item, name)) for name in leaf_names], tuple(getattr(item, name) for name in static_names)

    def flatten_with_keys(item: Any) -> tuple[Any, Any]:
        keys = map(jax.tree_util.GetAttrKey, leaf_names)
        leaves, structure = flatten(item)
        return list(zip(keys, leaves, strict=True)), structure

    def unflatten(structure: Any, leaves: Any) -> Any:
        item = object.__new__(cls)
        set_fields(
            item, **dict(zip(leaf_names, leaves, strict=True)), **dict(zip(static_names, structure, strict=True))
        )
        return item

    _FIELDS[cls] = leaf_names
    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def renewed(value: Any) -> Any:
    """Return a copy of an instance of a pytree class whose NumPy arrays are new objects with the same memory.

    JAX (at least 0.10 to 0.12) caches what it made from a NumPy array, by the identity of the array, and uses it in the
    other precision, too. Without new objects, a prior that a user's jitted function has used in single precision could
    not be sampled in double precision.
    """
    if type(value) is tuple:
        return tuple(map(renewed, value))
    if type(value) not in _FIELDS:
        return _fresh(value)
    other = copy.copy(value)
    set_fields(other, **{name: renewed(getattr(value, name)) for name in _FIELDS[type(value)]})
    return other


def _fresh(value: Any) -> Any:
    """Return a NumPy array as a new object with the same memory, also inside tuples; any other value unchanged."""
    if type(value) is np.ndarray:
        return value.view()
    return tuple(map(_fresh, value)) if type(value) is tuple else value


def set_fields(item: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass, inside its `__init__`."""
    for name, value in values.items():
        object.__setattr__(item, name, value)


class HostOnly:
    """A value inside a pytree that is invisible to compiled code: it has no leaves, and its structure is constant.

    A new value therefore does not cause a compilation, and JAX's caches do not keep it alive. (A static field would do
    both, because it is compared.) An instance that JAX has rebuilt is empty, and `value` raises.
    """

    def __init__(self, value: Any):
        self._value: tuple[Any, ...] = (value,)

    @property
    def value(self) -> Any:
        """The value. Raises RuntimeError inside compiled code."""
        if not self._value:
            raise RuntimeError(
                "this value is available only on the host, but JAX has rebuilt the object that contains it."
            )
        return self._value[0]


def _without_value(structure: None, leaves: Any) -> HostOnly:
    """Return an empty `HostOnly`, as JAX rebuilds it."""
    item = object.__new__(HostOnly)
    item._value = ()
    return item


jax.tree_util.register_pytree_node(HostOnly, lambda item: ((), None), _without_value)

"""Priors and moves as plain data, JSON and arrays, which contain no code.

Written are numbers, strings, arrays, tuples, lists, and instances of the library's own classes, by name and field. A
class is read only if it is registered in its folder. Its instance is filled field by field, without `__init__`.

A user's function or class cannot be written. Its name is written instead, and the user must give the object again. To
recognise a different object, its numbers are written as well: the result of its method `stored`, or its pytree leaves.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from functools import cache
from typing import Any

import jax
import numpy as np
import scipy.sparse

from ellipslice import approximations, moves, priors

NUMBERS = "fiub"
"""NumPy kinds of the arrays that are written: floats, integers and booleans."""


@cache
def known_classes() -> dict[str, type]:
    """Return the classes that can be written, and read again, by their names in a store."""
    members = (
        *priors.REGISTERED,
        *priors.STORED_PARTS,
        *moves.REGISTERED,
        *moves.STORED_PARTS,
        *approximations.REGISTERED,
    )
    return {stored_name(cls): cls for cls in members}


def stored_name(cls: type) -> str:
    """Return the name of a class in a store: its own attribute `stored_as`, by default the name of the class."""
    return vars(cls).get("stored_as", cls.__name__)


def is_known(item: Any) -> bool:
    """Return whether an instance can be written: its class itself, not only a base class, must be registered."""
    return known_classes().get(stored_name(type(item))) is type(item)


@dataclasses.dataclass
class Serialised:
    """An object as plain data."""

    tree: Any
    """JSON values; arrays are replaced by their index."""
    arrays: list[np.ndarray]
    missing: list[str]
    """Names of the parts that could not be written."""

    @property
    def complete(self) -> bool:
        """True if the object can be read again from this data."""
        return not self.missing

    @property
    def fingerprint(self) -> str:
        """SHA-256 of structure and numbers."""
        digest = hashlib.sha256(json.dumps(self.tree, sort_keys=True).encode())
        for array in self.arrays:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


def write(item: Any) -> Serialised:
    """Return an object as plain data. Parts that cannot be written are listed in `missing`."""
    written = Serialised(None, [], [])
    written.tree = _write(item, written)
    return written


def _write(item: Any, into: Serialised) -> Any:
    if item is None or isinstance(item, bool | str):
        return item
    if isinstance(item, int) and not isinstance(item, np.generic):
        return item
    if isinstance(item, float) and not isinstance(item, np.generic):
        return {"float": item.hex()}
    if isinstance(item, np.generic | np.ndarray | jax.Array):
        return _write_array(item, into)
    if type(item) in (tuple, list):
        return {type(item).__name__: [_write(part, into) for part in item]}
    if scipy.sparse.issparse(item):
        return _write_sparse(item, into)
    if is_known(item):
        return {
            "class": stored_name(type(item)),
            "fields": {name: _write(x, into) for name, x in fields_of(item).items()},
        }
    if type(item).__name__ == "SparseCholesky" and type(item).__module__ == "ellipslice.priors.parts.sparse_cholesky":
        return {"cholesky": _write(item.matrix, into), "package": item.package}
    name = getattr(item, "__qualname__", None) or vars(type(item)).get("stored_as", type(item).__qualname__)
    into.missing.append(name)
    return {"missing": name, "leaves": [_write(leaf, into) for leaf in numbers_of(item)]}


def numbers_of(item: Any) -> list[Any]:
    """Return the numbers of an object that cannot be written: the result of its method `stored`, or its leaves."""
    if callable(getattr(item, "stored", None)):
        return item.stored()
    return [] if jax.tree_util.all_leaves([item]) else jax.tree.leaves(item)


def fields_of(item: Any) -> dict[str, Any]:
    """Return the fields of an instance, without cached properties."""
    if dataclasses.is_dataclass(item):
        return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
    return {name: value for name, value in vars(item).items() if not _is_cached(item, name)}


def _is_cached(item: Any, name: str) -> bool:
    return name in dir(type(item)) and hasattr(getattr(type(item), name), "attrname")


def _write_array(item: Any, into: Serialised) -> Any:
    array = np.asarray(item)
    if array.dtype.kind not in NUMBERS:
        into.missing.append(f"an array of {array.dtype}")
        return {"missing": str(array.dtype)}
    into.arrays.append(array)
    kind = "scalar" if isinstance(item, np.generic) else "array"
    return {kind: len(into.arrays) - 1}


def _write_sparse(item: Any, into: Serialised) -> Any:
    form = item if item.format in ("csr", "csc") else item.tocsr()
    parts = [_write(part, into) for part in (form.data, form.indices, form.indptr)]
    return {
        "sparse": form.format,
        "matrix": isinstance(item, scipy.sparse.spmatrix),
        "shape": list(form.shape),
        "parts": parts,
    }


def read(tree: Any, arrays: list[np.ndarray]) -> Any:
    """Return the object of a tree that `write` returned. Raise ValueError if the tree contains anything else."""
    try:
        return _read(tree, arrays)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"its content is not what ellipslice writes ({error!r})") from None


def read_leaves(tree: Any, arrays: list[np.ndarray]) -> list[Any]:
    """Return the numbers of an object that could not be written itself."""
    leaves = tree.get("leaves") if isinstance(tree, dict) and "missing" in tree else None
    if not isinstance(leaves, list):
        raise ValueError("its content is not what ellipslice writes (no leaves)")
    return [read(leaf, arrays) for leaf in leaves]


def _read(tree: Any, arrays: list[np.ndarray]) -> Any:
    if tree is None or isinstance(tree, bool | str | int):
        return tree
    if not isinstance(tree, dict):
        raise ValueError(f"it contains a {type(tree).__name__}, which ellipslice does not write")
    match tree:
        case {"float": text}:
            return float.fromhex(text)
        case {"array": number}:
            return arrays[number]
        case {"scalar": number}:
            return arrays[number][()]
        case {"tuple": parts}:
            return tuple(_read(part, arrays) for part in parts)
        case {"list": parts}:
            return [_read(part, arrays) for part in parts]
        case {"sparse": _}:
            return _read_sparse(tree, arrays)
        case {"cholesky": matrix, "package": package}:
            from ellipslice.priors.parts.sparse_cholesky import SparseCholesky

            return SparseCholesky(_read(matrix, arrays), package)
        case {"class": name, "fields": fields}:
            return _read_instance(name, fields, arrays)
    raise ValueError(f"it contains {sorted(map(str, tree))}, which ellipslice does not write")


def _read_sparse(tree: dict[str, Any], arrays: list[np.ndarray]) -> Any:
    makers = {
        ("csr", False): scipy.sparse.csr_array,
        ("csc", False): scipy.sparse.csc_array,
        ("csr", True): scipy.sparse.csr_matrix,
        ("csc", True): scipy.sparse.csc_matrix,
    }
    matrix = makers[tree["sparse"], tree["matrix"]](
        tuple(_read(part, arrays) for part in tree["parts"]), shape=tuple(tree["shape"])
    )
    matrix.check_format(full_check=True)  # SciPy would read memory at indices beyond the shape
    return matrix


def _read_instance(name: str, fields: dict[str, Any], arrays: list[np.ndarray]) -> Any:
    cls = known_classes().get(name)
    if cls is None:
        raise ValueError(f"it contains a {name!r}, which is not a class that ellipslice stores")
    if dataclasses.is_dataclass(cls) and {field.name for field in dataclasses.fields(cls)} != set(fields):
        raise ValueError(f"it contains a {name} with the fields {sorted(fields)}, which are not those of the class")
    item = object.__new__(cls)
    for field, value in fields.items():
        object.__setattr__(item, field, _read(value, arrays))
    return item

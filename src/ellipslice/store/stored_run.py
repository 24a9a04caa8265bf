"""The specification of a run in its store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ellipslice.checks import warn
from ellipslice.engines.base import RunSpec
from ellipslice.moves import Move
from ellipslice.priors import Prior, TruncatedGaussian
from ellipslice.store import serial
from ellipslice.store.approximately_equal import approximately_equal
from ellipslice.store.read import RESTORE
from ellipslice.store.store import Store
from ellipslice.store.verify import load_arrays, open_unchecked, raise_if_edited

SPEC_FIELDS = ("chains", "seed", "warmup", "thin", "precision", "look_ahead")
"""Fields of `RunSpec` that are written to JSON unchanged."""

RUN_FIELDS = ("engine", "vectorized", "log_concave")
"""Fields of `StoredRun` that are written to JSON unchanged."""

_KEEP = {"everything": "keep=None", "nothing": "keep=False", "a function": "a function as keep"}
"""Argument `keep` of `sample`, by the words that a store contains."""


@dataclass(frozen=True)
class StoredRun:
    """Specification of a run: everything that determines its draws except the log-likelihood and the initial states."""

    prior: Prior | TruncatedGaussian
    spec: RunSpec
    vectorized: bool | None
    log_concave: bool | None
    keep: Callable[..., Any] | Literal[False] | None
    engine: str
    """Name of the engine."""

    def write(self) -> tuple[dict[str, Any], list[np.ndarray]]:
        """Return the run as JSON and arrays."""
        entries: dict[str, Any] = {name: getattr(self.spec, name) for name in SPEC_FIELDS}
        entries |= {name: getattr(self, name) for name in RUN_FIELDS}
        entries["chains"] = list(self.spec.chains)
        entries["keep"] = describe_keep(self.keep)
        arrays: list[np.ndarray] = []
        for name, item in (("prior", self.prior), ("move", self.spec.move)):
            written = serial.write(item)
            entries[name] = {
                "says": repr(item),  # the key of format 2
                "tree": written.tree,
                "first": len(arrays),
                "missing": written.missing,
                "fingerprint": written.fingerprint,
            }
            arrays += written.arrays
        return entries, arrays


def describe_keep(keep: Callable[..., Any] | Literal[False] | None) -> str:
    """Return what is kept of a draw, in the words that a store contains."""
    return "everything" if keep is None else "nothing" if keep is False else "a function"


def read_run(store: Store, prior: Any, move: Any, seed: Any, keep: Any) -> StoredRun:
    """Return the run of a store. Raise if `prior`, `move`, `seed` or `keep` are given and are not those of the run."""
    entries = store.setup
    with raise_if_edited(store.path):
        plain, kept = _read_fields(entries), entries["keep"]
        keep_argument = _KEEP[kept]
    if seed is not None and seed != plain["seed"]:
        raise ValueError(
            f"{store.path} was created with seed={plain['seed']}, but seed={seed!r} was given. Leave seed out."
        )
    with raise_if_edited(store.path):
        arrays = load_arrays(store)
    prior = _read_part(store, "prior", prior, arrays, (Prior, TruncatedGaussian))
    move = _read_part(store, "move", move, arrays, (Move,))
    if keep is None and kept == "a function":
        raise ValueError(
            f"{store.path} was created with a function as keep, which is not stored. Give it again: "
            "resume(..., keep=...)."
        )
    if keep is None and kept == "nothing":
        keep = False
    if describe_keep(keep) != kept:
        raise ValueError(
            f"{store.path} was created with {keep_argument}, but keep={keep!r} was given. Give the same keep."
        )
    spec = RunSpec(move, **{name: plain[name] for name in SPEC_FIELDS})
    return StoredRun(prior, spec, keep=keep, **{name: plain[name] for name in RUN_FIELDS})


def _read_fields(entries: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that JSON contains unchanged. Raise TypeError if one has the wrong type."""
    plain: dict[str, Any] = {name: entries[name] for name in (*SPEC_FIELDS, *RUN_FIELDS)}
    plain["chains"] = tuple(entries["chains"])
    for name in ("seed", "warmup", "thin"):
        if type(plain[name]) is not int or plain[name] < (name == "thin"):
            raise TypeError(f"{name} is {plain[name]!r}")
    if any(type(number) is not int or number < 0 for number in plain["chains"]):
        raise TypeError(f"chains is {plain['chains']!r}")
    return plain


def stored_parts(path: Path, name: str) -> list[Any]:
    """Return the numbers of a prior or move that could not be written, as its method `stored` returned them."""
    store = open_unchecked(path)
    try:
        entry = store.setup[name]
        return serial.read_leaves(entry["tree"], load_arrays(store)[entry["first"] :])
    except (ValueError, TypeError, LookupError) as error:
        raise ValueError(f"the {name} in {path} cannot be read: {error}.") from None


def _read_part(store: Store, name: str, given: Any, arrays: list[np.ndarray], classes: tuple[type, ...]) -> Any:
    """Return the prior or move of a store: the stored one, or the given one if it is equal. Raise if it differs."""
    with raise_if_edited(store.path):
        entry = store.setup[name]
        description, missing, fingerprint, tree = (entry[part] for part in ("says", "missing", "fingerprint", "tree"))
        own, named = arrays[entry["first"] :], ", ".join(missing)
    if given is None and missing:
        raise ValueError(
            f"{store.path} does not contain the {name} {description}, because code is never stored ({named}). Give it "
            f"again: resume(..., {name}=...)."
        )
    if given is not None and not isinstance(given, classes):
        raise TypeError(f"{name} must be a {name} of ellipslice, but it is a {type(given).__name__}.")
    if given is not None and serial.write(given).fingerprint == fingerprint:
        return given
    item = None
    if not missing:
        try:
            item = serial.read(tree, own)
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise ValueError(f"the {name} in {store.path} cannot be read: {error}. {RESTORE}") from None
        if not isinstance(item, classes):
            raise ValueError(f"the {name} in {store.path} cannot be read: it is a {type(item).__name__}. {RESTORE}")
    if given is None:
        return item
    with raise_if_edited(store.path):
        same = item is not None and approximately_equal(item, given)
    if not same:
        differs = f"{given!r} was given" if repr(given) != description else "one with other numbers in it was given"
        raise ValueError(
            f"{store.path} was created with the {name} {description}, but {differs}. Give the original one, or leave "
            "it out if the store contains it."
        )
    warn(
        f"the {name} that was given equals that of the store up to rounding error: the store was created on another "
        "kind of machine. The run continues with the stored one. Its draws are correct, but may not be bit-identical "
        "to those of an uninterrupted run."
    )
    return item

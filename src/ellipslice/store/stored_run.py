"""The specification of a run, as a store holds it."""

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
from ellipslice.store.approximately_equal import alike
from ellipslice.store.store import Store
from ellipslice.store.verify import as_made, load_arrays, refused_if_edited

OF_SPEC = ("chains", "seed", "warmup", "thin", "precision", "look_ahead")
"""Fields of `RunSpec` that JSON holds as they are."""

OF_RUN = ("engine", "vectorized", "log_concave")
"""Fields of `StoredRun` that JSON holds as they are."""


@dataclass(frozen=True)
class StoredRun:
    """What determines the draws of a run, besides the log-likelihood and the initial states."""

    prior: Prior | TruncatedGaussian
    spec: RunSpec
    vectorized: bool | None
    log_concave: bool | None
    keep: Callable[..., Any] | Literal[False] | None
    engine: str
    """Its name."""

    def write(self) -> tuple[dict[str, Any], list[np.ndarray]]:
        """Return the run as JSON and arrays."""
        entries: dict[str, Any] = {name: getattr(self.spec, name) for name in OF_SPEC}
        entries |= {name: getattr(self, name) for name in OF_RUN}
        entries["chains"] = list(self.spec.chains)
        entries["keep"] = kind_of(self.keep)
        arrays: list[np.ndarray] = []
        for name, item in (("prior", self.prior), ("move", self.spec.move)):
            written = serial.write(item)
            entries[name] = {
                "says": repr(item),
                "tree": written.tree,
                "first": len(arrays),
                "missing": written.missing,
                "fingerprint": written.fingerprint,
            }
            arrays += written.arrays
        return entries, arrays


def kind_of(keep: Callable[..., Any] | Literal[False] | None) -> str:
    """What is kept of a draw, in a word."""
    return "everything" if keep is None else "nothing" if keep is False else "a function"


def read_run(store: Store, prior: Any, move: Any, seed: Any, keep: Any) -> StoredRun:
    """Return the run of a store. Raise if `prior`, `move`, `seed` or `keep` are given and are not those of the run."""
    entries = store.setup
    with refused_if_edited(store.path):
        plain, kept = _plain(entries), entries["keep"]
    if seed is not None and seed != plain["seed"]:
        raise ValueError(f"{store.path} was made with seed={plain['seed']}, but seed={seed!r} was given. Leave it out.")
    with refused_if_edited(store.path):
        arrays = load_arrays(store)
    prior = _same(store, "prior", prior, arrays, (Prior, TruncatedGaussian))
    move = _same(store, "move", move, arrays, (Move,))
    if keep is None and kept == "a function":
        raise ValueError(f"{store.path} keeps what a function made of each draw. Give it again: resume(..., keep=...).")
    if keep is None and kept == "nothing":
        keep = False
    if kind_of(keep) != kept:
        raise ValueError(f"{store.path} keeps {kept} of each draw, but keep={keep!r} was given.")
    spec = RunSpec(move, **{name: plain[name] for name in OF_SPEC})
    return StoredRun(prior, spec, keep=keep, **{name: plain[name] for name in OF_RUN})


def _plain(entries: dict[str, Any]) -> dict[str, Any]:
    """The fields that JSON holds as they are, if they can be what they should."""
    plain: dict[str, Any] = {name: entries[name] for name in (*OF_SPEC, *OF_RUN)}
    plain["chains"] = tuple(entries["chains"])
    for name in ("seed", "warmup", "thin"):
        if type(plain[name]) is not int or plain[name] < (name == "thin"):
            raise TypeError(f"{name} is {plain[name]!r}")
    if any(type(number) is not int or number < 0 for number in plain["chains"]):
        raise TypeError(f"chains is {plain['chains']!r}")
    return plain


def stored_parts(path: Path, name: str) -> list[Any]:
    """The numbers of a prior or a move that must be handed over again, as its method `stored` gave them."""
    store = as_made(path)
    try:
        entry = store.setup[name]
        return serial.read_leaves(entry["tree"], load_arrays(store)[entry["first"] :])
    except (ValueError, TypeError, LookupError) as error:
        raise ValueError(f"the {name} in {path} cannot be read: {error}.") from None


def _same(store: Store, name: str, given: Any, arrays: list[np.ndarray], classes: tuple[type, ...]) -> Any:
    """The prior or the move: from the store, or as given if it is the one that the store was made with."""
    with refused_if_edited(store.path):
        entry = store.setup[name]
        says, missing, fingerprint, tree = (entry[part] for part in ("says", "missing", "fingerprint", "tree"))
        own, named = arrays[entry["first"] :], ", ".join(missing)
    if given is None and missing:
        raise ValueError(
            f"{store.path} does not hold the {name}, {says}, for code is never stored ({named}). Give it again: "
            f"resume(..., {name}=...)."
        )
    if given is not None and not isinstance(given, classes):
        raise TypeError(f"{name} must be one of ellipslice's, but it is a {type(given).__name__}.")
    if given is not None and serial.write(given).fingerprint == fingerprint:
        return given
    item = None
    if not missing:
        try:
            item = serial.read(tree, own)
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise ValueError(f"the {name} in {store.path} cannot be read: {error}.") from None
        if not isinstance(item, classes):
            raise ValueError(f"the {name} in {store.path} cannot be read: it is a {type(item).__name__}.")
    if given is None:
        return item
    with refused_if_edited(store.path):
        same = item is not None and alike(item, given)
    if not same:
        differs = f"{given!r} was given" if repr(given) != says else "one with other numbers in it was given"
        raise ValueError(f"{store.path} was made with the {name} {says}, but {differs}. Give the same.")
    warn(
        f"the {name} that was given is that of the store but for rounding: it was made on another kind of machine. The "
        "run goes on with the store's, and its draws are right; but they may not be those of an uninterrupted run to "
        "the last bit."
    )
    return item

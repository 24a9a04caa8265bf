"""Compare runs with the record: bit for bit in the environment of the record, to nine digits elsewhere."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from golden.environment import environment
from golden.noise import describe_noise
from golden.runs import describe

HINT = (
    "A seed gives other draws than before. If that is intended, say why in the commit message and record anew: "
    "python tests/golden/record.py"
)


DEPEND_ON_PROCESSOR = (
    "Local.random | Dense, 7",
    "Local.contiguous | Markov, 7",
    "Local.random | Markov, 7",
    "ControlVariables, inputs | Dense, 7",
    "local_random",
    "control_variables",
)
"""Beginnings of the names of runs whose draws differ between processors by more than rounding error.

The same code gave different draws on an AMD EPYC and on an Intel Xeon. A likely cause is a factorisation that chooses
among equal pivots, where rounding decides which comes first. This has not been verified.
"""


@cache
def record(name: str = "bits.json") -> dict[str, Any]:
    """Return one of the records of this folder."""
    return json.loads(Path(__file__).with_name(name).read_text(encoding="utf8"))


def made_here(name: str = "bits.json") -> bool:
    """Return True if a record was made in this environment, so that bits can be compared."""
    return record(name)["environment"] == environment()


def is_comparable(run: str, name: str = "bits.json") -> bool:
    """Return True if this environment must reproduce the recorded numbers of a run, at least to nine digits."""
    return made_here(name) or not run.startswith(DEPEND_ON_PROCESSOR)


def check_run(name: str, found: dict[str, np.ndarray], *, to_the_bit: bool | None = None) -> None:
    """Raise unless a run is the recorded one.

    Numbers are compared to nine digits. Bits are compared if `to_the_bit` is true and they are on record. Default: if
    the record was made in this environment.
    """
    recorded, described = record()["runs"][name], describe(found)
    assert described["first"].keys() == recorded["first"].keys(), f"{name}: other arrays. {HINT}"
    for key, values in recorded["first"].items():
        close(described["first"][key], values, f"{name}: {key}")
    if (made_here() if to_the_bit is None else to_the_bit) and recorded["sha256"] is not None:
        assert described["sha256"] == recorded["sha256"], f"{name}: other bits. {HINT}"


def check_noise() -> None:
    """Raise unless random numbers are bit-identical to the recorded ones. They do not depend on the machine."""
    found, recorded = json.loads(json.dumps(describe_noise())), record()["noise"]
    assert found.keys() == recorded.keys(), HINT
    for key, values in recorded.items():
        assert found[key] == values, f"{key}: other random numbers. {HINT}"


def close(found: Any, recorded: Any, what: str) -> None:
    """Raise unless the numbers agree to nine digits."""
    np.testing.assert_allclose(found, recorded, rtol=1e-9, atol=1e-9, err_msg=f"{what}: other numbers. {HINT}")

"""Record the golden bits of this code, in this environment: tests/golden/bits.json.

    python tests/golden/record.py                # everything, in about five minutes
    python tests/golden/record.py "Cycle of two" # only this move; the others stay as they are

A new recording means that seeds give other draws from now on. State the reason in the commit message. If the other runs
were recorded in another environment, a single move is recorded without its SHA-256, which only that environment has.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from golden.environment import environment
from golden.noise import describe_noise
from golden.runs import OTHERS, cases, describe, run

BITS = Path(__file__).with_name("bits.json")


def key(move: str, problem: str, engine: str) -> str:
    return f"{move} | {problem} | {engine}"


def main(names: list[str]) -> None:
    before: dict[str, Any] = {"environment": environment(), "runs": {}, "not_allowed": []}
    if names:
        before = json.loads(BITS.read_text(encoding="utf8"))
    bits = {} if before["environment"] == environment() else {"sha256": None}
    runs: dict[str, Any] = before["runs"]
    not_allowed = set(before["not_allowed"])
    for case in cases():
        if names and case[0] not in names:
            continue
        runs.pop(key(*case), None)
        not_allowed.discard(key(*case))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                runs[key(*case)] = describe(run(*case)) | bits
        except (TypeError, ValueError) as error:
            not_allowed.add(key(*case))
            print(f"not allowed: {key(*case)}: {str(error)[:100]}", flush=True)  # noqa: T201
    for name, make in OTHERS.items():
        if not names or name in names:
            runs[name] = describe(make()) | bits
    order = [key(*case) for case in cases()] + list(OTHERS)
    record = {
        "environment": before["environment"],
        "noise": describe_noise(),
        "runs": {name: runs[name] for name in order if name in runs},
        "not_allowed": [name for name in order if name in not_allowed],
    }
    BITS.write_text(readable(record) + "\n", encoding="utf8")


def readable(value: Any, indent: int = 0) -> str:
    """Return JSON in which everything that fits on one line is on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= 118 or not isinstance(value, dict | list):
        return flat
    pad = " " * (indent + 1)
    if isinstance(value, list):
        inner = [readable(item, indent + 1) for item in value]
        return "[\n" + ",\n".join(pad + item for item in inner) + "\n" + " " * indent + "]"
    inner = [f"{json.dumps(k, ensure_ascii=False)}: {readable(v, indent + 1)}" for k, v in value.items()]
    return "{\n" + ",\n".join(pad + item for item in inner) + "\n" + " " * indent + "}"


if __name__ == "__main__":
    main(sys.argv[1:])

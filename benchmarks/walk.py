"""Count the files and functions of the library that four typical calls run through.

    python benchmarks/walk.py             # a table
    python benchmarks/walk.py --list      # the files of each call, too

A reader who follows such a call meets these files. Each call runs in its own process on a tiny problem, and
`sys.setprofile` and `threading.setprofile` record every function of `src/ellipslice` that is entered. What runs on
import is not counted, and neither are lambdas and comprehensions.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import ellipslice as es

SOURCE = Path(es.__file__).parent
SHORT: dict[str, Any] = {"draws": 20, "warmup": 5, "chains": 2, "seed": 1, "progress": False}
SIZE = 6


def compiled() -> None:
    """Sample on the compiled engine."""
    import jax.numpy as jnp

    es.sample(lambda f: -jnp.sum((f - 1.0) ** 2), es.Diagonal(np.ones(SIZE)), **SHORT)


def host() -> None:
    """Sample on the host engine."""
    es.sample(lambda f: -float(((f - 1.0) ** 2).sum()), es.Diagonal(np.ones(SIZE)), engine="host", **SHORT)


def unknown() -> None:
    """Fit a `LatentGP` with an unknown amplitude and an unknown length scale."""
    import numpyro.distributions as dist
    from tinygp import kernels

    model = es.gp.LatentGP(
        lambda amplitude, length_scale: amplitude**2 * kernels.Matern52(length_scale),
        es.likelihoods.Poisson,
        parameters={"amplitude": dist.LogNormal(0.0, 1.0), "length_scale": dist.LogNormal(0.0, 1.0)},
    )
    model.fit(np.arange(float(SIZE)), np.array([2, 3, 1, 0, 1, 2]), **SHORT)


def command() -> None:
    """Run `ellipslice fit` on a table with six rows."""
    from typer.testing import CliRunner

    from ellipslice.apps.cli import app

    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        table.write_text("time,count\n" + "".join(f"{t},{t % 3}\n" for t in range(SIZE)), encoding="utf8")
        options = ["--x", "time", "--y", "count", "--likelihood", "poisson", "--out", f"{folder}/run"]
        short = ["--draws", "20", "--warmup", "5", "--chains", "2", "--seed", "1"]
        result = CliRunner().invoke(app, ["fit", str(table), *options, *short])
        if result.exit_code:
            raise SystemExit(result.output)


CALLS: dict[str, tuple[str, Callable[[], None]]] = {
    "compiled": ("es.sample, compiled", compiled),
    "host": ("es.sample, host", host),
    "unknown": ("LatentGP.fit, unknown hyperparameters", unknown),
    "command": ("ellipslice fit", command),
}


def importing(frame: FrameType | None) -> bool:
    """Return whether a frame belongs to the import of a module of the library."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(str(SOURCE)):
            return True
        frame = frame.f_back
    return False


def walk(call: Callable[[], None]) -> dict[str, list[str]]:
    """Return the functions that a call enters, by file."""
    entered: set[CodeType] = set()
    library = str(SOURCE)

    def record(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(library) and code not in entered and not importing(frame):
            entered.add(code)

    threading.setprofile(record)
    sys.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    found: dict[str, list[str]] = {}
    for code in entered:
        if not code.co_name.startswith("<"):
            path = Path(code.co_filename).relative_to(SOURCE).as_posix()
            found.setdefault(path, []).append(code.co_qualname)
    return {name: sorted(found[name]) for name in sorted(found)}


def main() -> None:
    """Trace each call in its own process, so that none uses the caches of another, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="list the files of each call")
    parser.add_argument("--only", choices=CALLS, help="trace one call and print JSON")
    options = parser.parse_args()
    if options.only:
        print(json.dumps(walk(CALLS[options.only][1])))
        return
    print(f"{'call':40}{'files':>7}{'functions':>11}")
    for name, (title, _) in CALLS.items():
        command = [sys.executable, __file__, "--only", name]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        print(f"{title:40}{len(found):7}{sum(map(len, found.values())):11}")
        if options.list:
            for path, functions in found.items():
                print(f"    {path:45}{len(functions):4}")


if __name__ == "__main__":
    main()

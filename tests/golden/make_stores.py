"""Make the unfinished stores of tests/golden/stores, and the results of the uninterrupted runs: stores.json.

    python tests/golden/make_stores.py          # all of them
    python tests/golden/make_stores.py plain    # only this one; the others stay as they are

Each run is killed in its own process, after a checkpoint with at least `DRAWS` draws of each chain.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from golden.environment import environment
from golden.record import readable
from golden.runs import arrays
from golden.unfinished import OPTIONS, RUNS, begin

HERE = Path(__file__).parent
RECORD = HERE / "stores.json"
DRAWS = 6


def kill(name: str, path: str) -> None:
    """Begin a run with a store, and end this process during the run."""
    from ellipslice.engines.compiled import block, chain
    from ellipslice.engines.host import engine as host
    from ellipslice.store import arrays, store

    store.MIN_COMMIT_SECONDS, store.MAX_COMMIT_FRACTION, arrays.MAX_CHUNK_BYTES = 0.0, 1e9, 400
    host.TURN_SECONDS = chain.TURN_SECONDS = 1e-9  # few updates at a time, and a commit after each time
    block.MAX_CALL_SECONDS = 0.0
    commit = store.Store.commit

    def killing(self: Any, *arguments: Any) -> None:
        commit(self, *arguments)
        if min(self.complete) >= DRAWS:
            os._exit(int(max(self.complete) >= OPTIONS["draws"]))  # an error code if the run is finished

    store.Store.commit = killing
    begin(name, store=path)
    sys.exit(f"{name} came to its end before it was killed")


def main(names: list[str]) -> None:
    record: dict[str, Any] = {"environment": environment(), "runs": {}}
    if names:
        record = json.loads(RECORD.read_text(encoding="utf8"))
        if record["environment"] != environment():
            sys.exit("The other stores were made in another environment. Make all of them: leave the names out.")
    (HERE / "stores").mkdir(exist_ok=True)
    for name in names or RUNS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.zarr"
            subprocess.run([sys.executable, __file__, "--kill", name, str(path)], check=True)
            with zipfile.ZipFile(HERE / "stores" / f"{name}.zip", "w", zipfile.ZIP_LZMA) as archive:
                for file in sorted(path.rglob("*")):
                    if file.is_file():
                        entry = zipfile.ZipInfo(str(file.relative_to(path)))
                        archive.writestr(entry, file.read_bytes(), zipfile.ZIP_LZMA)
        record["runs"][name] = {key: values.tolist() for key, values in arrays(begin(name)).items()}
        print(name, "made", flush=True)  # noqa: T201
    RECORD.write_text(readable(record) + "\n", encoding="utf8")


if __name__ == "__main__":
    kill(*sys.argv[2:]) if sys.argv[1:2] == ["--kill"] else main(sys.argv[1:])

"""Run a script and store its output, with the command, the commit, the machine and the processor time.

    python benchmarks/record.py benchmarks/results/example_offset.json examples/offset.py

The first argument is the file to write; the others are the script and its arguments. Pages that quote the output of a
script link to such a file.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

from ellipslice.machine import commit, machine

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that are stored, because they change timings."""


def main() -> None:
    """Run the script, print its output, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    before = commit()  # the script may write pictures that are tracked
    done = subprocess.run([sys.executable, *given.command], stdout=subprocess.PIPE, text=True, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(done.stdout, end="")
    record = {
        "command": " ".join(["python", *given.command]),
        "commit": before,
        "machine": machine(),
        "environment": {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "output": done.stdout.splitlines(),
    }
    given.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()

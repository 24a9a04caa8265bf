"""Try combinations of options drawn at random: `python tests/combinations/random_rows.py --rows 50 --seed 3`.

All rows must run. With `--any`, rows may also be invalid, and most must be rejected. `--fix` sets options, such as
`--fix engine=compiled move=Local`. Exits with 1 if a row fails.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]

from combinations.combined import OPTIONS, check  # noqa: E402
from combinations.pairs import name, random_rows  # noqa: E402
from combinations.refusals import REFUSALS  # noqa: E402
from combinations.watchdog import watchdog  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--any", action="store_true", help="rows that must be refused, too")
    parser.add_argument("--fix", nargs="*", default=[], metavar="option=value")
    given = parser.parse_args()
    fixed = dict(item.split("=", 1) for item in given.fix)
    options = OPTIONS | {option: [value] for option, value in fixed.items()}
    counts = Counter[str]()
    for row in random_rows(options, given.rows, given.seed, () if given.any else REFUSALS):
        with tempfile.TemporaryDirectory() as folder:
            try:
                with watchdog():
                    outcome = check(row, Path(folder))
            except Exception as error:  # noqa: BLE001  each row is reported
                outcome = "FAILED"
                traceback.print_exception(error, limit=-3)
        counts[outcome] += 1
        print(f"{outcome}: {name(row, OPTIONS)}", flush=True)  # noqa: T201
    print(dict(counts))  # noqa: T201
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())

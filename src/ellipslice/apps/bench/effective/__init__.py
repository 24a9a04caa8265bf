"""Effective samples per CPU second: this library compared with gradient methods, and the choice of `reference="auto"`.

- `run`: measure all methods on all problems, in one process or several
- `problems`: the problems
- `methods`: the names of the methods, and the packages that they require
- `ours`: the methods of this library
- `rivals`: NUTS and the auxiliary gradient sampler
- `measure`: one measurement: length of the run, effective sample size, R-hat
- `tables`: medians over seeds, ratios, and the printed tables
"""

from ellipslice.apps.bench.effective.run import join, run

__all__ = ["join", "run"]

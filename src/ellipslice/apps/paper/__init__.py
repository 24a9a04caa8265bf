"""The experiments of Murray, Adams & MacKay (2010), Section 4.

- `experiment`: all runs of `ellipslice paper`
- `problems`: the twelve problems
- `methods`: the methods that are compared
- `protocol`: one run of a method on a problem
- `folder`: the folder, with a file for each finished run
- `results`: means over runs
- `agreement`: comparison with the numbers of the paper
- `report`: the report
- `figures/`: Figures 3 to 6
"""

from ellipslice.apps.paper.problems import PROBLEMS, Problem, problem

__all__ = ["PROBLEMS", "Problem", "problem"]

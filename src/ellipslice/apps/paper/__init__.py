"""The paper's experiments (Murray, Adams & MacKay 2010, Section 4)."""

from ellipslice.apps.paper.problems import PROBLEMS, Problem, problem

__all__ = ["PROBLEMS", "Problem", "problem"]

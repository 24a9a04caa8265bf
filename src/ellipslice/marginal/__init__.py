"""The evidence of a model, log Z: `evidence` by annealing, with an error bar."""

from ellipslice.marginal.evidence import evidence
from ellipslice.marginal.result import Evidence

__all__ = ["Evidence", "evidence"]

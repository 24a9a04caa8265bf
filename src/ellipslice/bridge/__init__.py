"""Bridge sampling: the log marginal likelihood of models whose hyperparameters are integrated out.

- `estimator`: the bridge estimator, its standard error, and the overlap of posterior and proposal
- `pareto`: the tail index of weights, a diagnostic
- `proposal`: the proposal distribution of hyperparameters
- `result`: the class `LogEvidence`, and the error for an unreliable estimate
"""

from ellipslice.bridge.result import LogEvidence, UnreliableEvidenceError

__all__ = ["LogEvidence", "UnreliableEvidenceError"]

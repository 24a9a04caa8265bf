"""Whether a posterior is proper: flat directions of the prior, and whether the responses determine them.

Let d be a direction of the latents in which the prior is flat. The posterior is improper if there is a direction d, not
0 in the linear predictor, along which no log-likelihood decreases to -inf. For binary responses this is separation.
Linear programming finds such a direction.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from ellipslice.latent.assembly import Assembly
from ellipslice.likelihoods import Likelihood

FAR = 1e12
"""Distance of linear predictors at which it is decided whether a log-likelihood decreases to -inf.

It is larger than any response, because the log-likelihood of a real-valued response increases up to there."""

DECREASE = 1.0
"""Smallest decrease of a log-likelihood at that distance that counts."""


def flat_predictors(assembly: Assembly, improper: np.ndarray) -> np.ndarray:
    """Return the change of the linear predictor along each flat direction, shape (observed rows, directions).

    Parameters
    ----------
    assembly : Assembly
    improper : array, shape (directions, size)
        Directions of x in which the prior is flat.
    """
    return np.asarray(assembly.A @ improper.T)


def unidentified(predictors: np.ndarray) -> np.ndarray | None:
    """Return a combination of flat directions that does not change the linear predictor; None if there is none."""
    if not predictors.shape[1]:
        return None
    scale = np.maximum(np.abs(predictors).max(axis=0), 1e-300)
    _, values, axes = np.linalg.svd(predictors / scale, full_matrices=predictors.shape[0] < predictors.shape[1])
    rank = int((values > 1e-9 * max(values.max(initial=0.0), 1e-300)).sum())
    return None if rank == predictors.shape[1] else axes[-1] / scale


def separating(predictors: np.ndarray, likelihood: Likelihood) -> np.ndarray | None:
    """Return a combination of flat directions along which no log-likelihood decreases to -inf; None if there is none.

    Parameters
    ----------
    predictors : array, shape (observed rows, directions)
        From `flat_predictors`, of full column rank.
    likelihood : Likelihood
    """
    if not predictors.shape[1]:
        return None
    zero = np.zeros(len(predictors))
    middle = np.maximum.reduce([likelihood.pointwise(zero + eta) for eta in (-2.0, 0.0, 2.0)])
    with np.errstate(all="ignore"):
        up, down = (likelihood.pointwise(zero + eta) > middle - DECREASE for eta in (FAR, -FAR))
    free = predictors[up & down], predictors[up & ~down], predictors[~up & down], predictors[~up & ~down]
    either, upwards, downwards, fixed = free
    signed = np.concatenate([upwards, -downwards])
    determined = np.concatenate([fixed, signed])
    if len(either) and (not len(determined) or np.linalg.matrix_rank(determined) < predictors.shape[1]):
        # Some combination changes only rows whose log-likelihood is bounded in both directions.
        return np.linalg.svd(determined)[2][-1]
    if not len(signed):
        return None
    found = linprog(
        -signed.sum(axis=0) / np.abs(signed).max(),
        A_ub=-signed,
        b_ub=np.zeros(len(signed)),
        A_eq=fixed if len(fixed) else None,
        b_eq=np.zeros(len(fixed)) if len(fixed) else None,
        bounds=(-1, 1),
    )
    if found.status != 0 or -found.fun <= 1e-6:
        return None
    return np.asarray(found.x)

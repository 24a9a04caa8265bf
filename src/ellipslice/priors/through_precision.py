"""What conditionals through a precision share."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular

BLOCK_LIMIT = 5_000
"""Most values in a block whose conditional is a dense matrix."""


def inverse_factor(precision: np.ndarray) -> np.ndarray:
    """The lower triangular F with F @ F.T the inverse of a precision; LinAlgError if there is none."""
    lower = cholesky(precision[::-1, ::-1], lower=True)  # backwards, so that the inverse is lower triangular again
    return solve_triangular(lower, np.eye(len(lower)), lower=True).T[::-1, ::-1]


def check_small(block: np.ndarray) -> np.ndarray:
    """A block whose conditional may be a dense matrix."""
    if len(block) > BLOCK_LIMIT:
        raise ValueError(
            f"block has {len(block)} values, and its conditional would be a dense matrix of that size. Use blocks "
            f"of at most {BLOCK_LIMIT} values."
        )
    return block

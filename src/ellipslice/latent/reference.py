"""The reference: a Gaussian approximation of the latents given the hyperparameters, and its white coordinates.

With sites exp(b e - w e^2 / 2) for e = eta - offset, the reference is the Gaussian with precision H = Q + A' diag(w) A
and mean H^-1 A' b, conditioned on the constraints C x = 0. White noise z ~ N(0, I) gives x = mean + P L'^-1 z, where
H = L L' and P is the projection onto the constraints along H^-1 C'. The density of x under the reference is known, so
the posterior of hyperparameters and z is exact for any sites, and for any error of H.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.latent.assembly import Assembly


class Reference:
    """Gaussian N(mean, H^-1) on {C x = 0}.

    Parameters
    ----------
    assembly : Assembly
    analysis : Analysis
        The symbolic factorisation of the pattern.
    factor : Factor
        The factorisation of H.
    prior_entries : array
        Entries of the prior's precision Q.
    precision, linear : arrays, shape (observed rows,)
        Sites w and b.

    Attributes
    ----------
    mean : array, shape (size,)
    """

    def __init__(
        self,
        assembly: Assembly,
        analysis: Any,
        factor: Any,
        prior_entries: np.ndarray,
        precision: np.ndarray,
        linear: np.ndarray,
    ):
        self._assembly, self._analysis, self._factor = assembly, analysis, factor
        self._prior_entries = prior_entries
        self.precision, self.linear = precision, linear
        mean = factor.solve(assembly.transposed @ linear)
        self._log_normaliser = 0.5 * factor.log_determinant
        C = assembly.constraints
        self._gain = None
        if len(C):
            solved = factor.solve(np.ascontiguousarray(C.T))  # H^-1 C'
            small = self._small = C @ solved
            self._small_inverse = np.linalg.inv(small)
            self._gain = solved @ self._small_inverse
            mean = mean - self._gain @ (C @ mean)
            self._log_normaliser += 0.5 * float(np.linalg.slogdet(small)[1]) - assembly.log_constraints
        self.mean = mean

    def place(self, z: np.ndarray) -> tuple[np.ndarray, float]:
        """Return x for white noise z, and minus twice the log density of the reference there, without normaliser."""
        away, square = self._factor.unwhiten(z), float(z @ z)
        if self._gain is None:
            return self.mean + away, square
        residual = self._assembly.constraints @ away
        square -= float(residual @ (self._small_inverse @ residual))
        return self.mean + away - self._gain @ residual, square

    def log_prior_ratio(self, x: np.ndarray, square: float) -> float:
        """Return the log of exp(-x' Q x / 2) divided by the density of the reference at x; `square` is from `place`."""
        return 0.5 * (square - self._analysis.quadratic(self._prior_entries, x)) - self._log_normaliser

    def force(self, eta: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Return the gradient with respect to z of the log-likelihood minus the sites.

        `slope` is the derivative of the log-likelihood with respect to the linear predictor eta.
        """
        change = slope - self.linear + self.precision * (eta - self._assembly.offset)
        gradient = self._assembly.transposed @ change
        if self._gain is not None:
            gradient = gradient - self._assembly.constraints.T @ (self._gain.T @ gradient)
        return self._factor.half_solve(gradient)

    def covariance_of(self, matrix: Any) -> np.ndarray:
        """Return the covariance of matrix @ x under the reference, dense, for a sparse matrix."""
        solved = self._factor.solve(np.ascontiguousarray(matrix.toarray().T))
        found = np.asarray(matrix @ solved)
        if self._gain is not None:
            along = matrix @ self._gain
            found = found - along @ self._small @ along.T
        return found

    def variances_of(self, matrix: Any) -> np.ndarray:
        """Return the variances of matrix @ x under the reference, for a sparse matrix with few rows."""
        return np.maximum(self.covariance_of(matrix).diagonal(), 0.0)

    def variances(self) -> np.ndarray:
        """Return the variances of the linear predictor of the observed rows under the reference."""
        found = free = self._assembly.variances(self._factor.selected_inverse())
        if self._gain is not None:
            along = self._assembly.A @ self._gain
            found = free - ((along @ self._small) * along).sum(1)
        return np.maximum(found, 1e-12 * free)

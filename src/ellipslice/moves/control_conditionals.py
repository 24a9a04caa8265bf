"""The joint Gaussian of a latent vector f and its control variables f_c, for `ControlVariables`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ellipslice.moves.control_inputs import NUGGET
from ellipslice.priors.parts.conditional import as_block
from ellipslice.priors.parts.kernels import covariance_function, covariance_matrix
from ellipslice.pytree import HostOnly, pytree, set_fields


class AtValues:
    """Control variables that are elements of f plus a small noise."""

    stored_as = "_AtValues"

    def __init__(self, values: tuple[int, ...]):
        self._values = values

    @property
    def controls(self) -> np.ndarray:
        return np.array(self._values)

    def covariances(self, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the covariances of f with f_c (N, M), and of f_c without its noise (M, M)."""
        values = as_block(self._values, len(covariance))
        return covariance[:, values], covariance[np.ix_(values, values)]

    def __repr__(self) -> str:
        return (
            f"at values {', '.join(map(str, self._values))}" if len(self._values) < 6 else f"{len(self._values)} values"
        )

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, AtValues) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)


class AtInputs:
    """Control variables that are values of the latent function at given inputs."""

    def __init__(self, kernel: Any, inputs: np.ndarray, controls: np.ndarray):
        self._kernel, self._inputs, self.controls = kernel, inputs, controls
        self._between = covariance_function(kernel)

    def covariances(self, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the covariances of f with f_c (N, M), and of f_c without its noise (M, M)."""
        if len(self._inputs) != len(covariance):
            raise ValueError(
                f"ControlVariables was given {len(self._inputs)} inputs, but the prior has {len(covariance)} elements. "
                "Expected one input per element."
            )
        from_kernel = covariance_matrix(self._kernel, self._inputs)
        difference = float(np.abs(from_kernel - covariance).max())
        if difference > 1e-4 * float(np.abs(covariance).max()):
            raise ValueError(
                f"the covariance of the prior and that of the kernel at the inputs differ by up to {difference:.3g}. "
                "Give ControlVariables the kernel and the inputs that the prior was made with, in the same order."
            )
        return self._between(self._inputs, self.controls), self._between(self.controls, self.controls)

    def __repr__(self) -> str:
        dimensions = self._inputs.shape[1] if self._inputs.ndim > 1 else 1
        return f"{len(self.controls)} inputs in {dimensions} dimension{'s' if dimensions > 1 else ''}"

    @property
    def _key(self) -> tuple[Any, ...]:
        return self._inputs.tobytes(), self.controls.tobytes(), self.controls.shape

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, AtInputs) and self._kernel is other._kernel and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class Spread(NamedTuple):
    """Matrices that map standard normals, as rows, to draws around the conditional means."""

    of_f: np.ndarray
    """Matrix for draws of f given f_c, shape (noise_size, size)."""
    of_controls: np.ndarray
    """Matrix for draws of f_c given f, shape (M, M)."""


@pytree
class Conditionals:
    """The conditional distributions of f and its M control variables f_c, as matrices."""

    to_f: Any
    """Shape (M, size). The mean of f given f_c is f_c @ to_f."""
    from_f: Any
    """Shape (size, M). The mean of f_c given f is f @ from_f."""
    weights: Any
    """Shape (M, M). The mean of f_c[i] given the other control variables is weights[i] @ f_c; weights[i, i] is 0."""
    deviations: Any
    """Standard deviation of each control variable given the others, shape (M,)."""
    host: HostOnly
    """The `Spread`, on the host, where draws are made."""

    def __init__(self, to_f: Any, from_f: Any, weights: Any, deviations: Any, spread: Spread | None):
        set_fields(self, to_f=to_f, from_f=from_f, weights=weights, deviations=deviations, host=HostOnly(spread))

    @property
    def spread(self) -> Spread:
        """Matrices that map standard normals to draws, on the host."""
        return self.host.value

    @classmethod
    def of_prior(cls, factor: np.ndarray, own: np.ndarray, between: np.ndarray, among: np.ndarray) -> Conditionals:
        """Return the conditionals for a prior with covariance factor.T @ factor.

        Parameters
        ----------
        factor : array, shape (noise_size, size)
        own : array, shape (noise_size, n)
            The columns of `factor` for the elements that control variables depend on, which come first.
        between : array, shape (n, M)
            Covariance of these elements with f_c.
        among : array, shape (M, M)
            Covariance of f_c.
        """
        nugget = NUGGET * float(np.mean(among.diagonal()))
        from_f = np.linalg.solve(own.T @ own + nugget * np.eye(own.shape[1]), between)
        control_spread = _matrix_root(among - between.T @ from_f, least=nugget)
        from_f = np.pad(from_f, [(0, factor.shape[1] - own.shape[1]), (0, 0)])
        # The rest is exact for f = z @ factor and f_c = f @ from_f + noise, for any from_f and any noise covariance.
        shared = factor @ from_f
        precision = np.linalg.inv(shared.T @ shared + control_spread.T @ control_spread)
        variances = 1 / precision.diagonal()
        return cls(
            to_f=precision @ shared.T @ factor,
            from_f=from_f,
            weights=np.eye(len(precision)) - precision * variances[:, None],
            deviations=np.sqrt(variances),
            spread=Spread(_matrix_root(np.eye(len(factor)) - shared @ precision @ shared.T) @ factor, control_spread),
        )

    def padded(self, more: int) -> Conditionals:
        """Return a copy with `more` control variables, which are independent of f and never move, without `spread`."""
        last = (0, more)
        return Conditionals(
            to_f=np.pad(self.to_f, [last, (0, 0)]),
            from_f=np.pad(self.from_f, [(0, 0), last]),
            weights=np.pad(self.weights, [last, last]),
            deviations=np.pad(self.deviations, last),
            spread=None,
        )


def _matrix_root(covariance: np.ndarray, least: float = 0.0) -> np.ndarray:
    """Return rows with rows.T @ rows = covariance, where eigenvalues below `least` are raised to it."""
    values, vectors = np.linalg.eigh(covariance)
    return np.sqrt(np.maximum(values, least))[:, None] * vectors.T

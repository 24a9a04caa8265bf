"""The joint Gaussian of a latent vector f and its control variables f_c, for `ControlVariables`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ellipslice.moves.control_inputs import NUGGET
from ellipslice.priors.parts.conditional import as_block
from ellipslice.priors.parts.kernels import covariance_function, covariance_matrix
from ellipslice.pytree import HostOnly, pytree, set_fields


class AtValues:
    """Control variables that are values of f, but for their noise."""

    stored_as = "_AtValues"

    def __init__(self, values: tuple[int, ...]):
        self._values = values

    @property
    def controls(self) -> np.ndarray:
        return np.array(self._values)

    def covariances(self, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of f with f_c, and of f_c without its noise."""
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
    """Control variables at inputs of their own."""

    def __init__(self, kernel: Any, inputs: np.ndarray, controls: np.ndarray):
        self._kernel, self._inputs, self.controls = kernel, inputs, controls
        self._between = covariance_function(kernel)

    def covariances(self, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if len(self._inputs) != len(covariance):
            raise ValueError(
                f"ControlVariables was given {len(self._inputs)} inputs, but the prior has {len(covariance)} values; "
                "expected an input for each."
            )
        said = covariance_matrix(self._kernel, self._inputs)
        off = float(np.abs(said - covariance).max())
        if off > 1e-4 * float(np.abs(covariance).max()):
            raise ValueError(
                f"the prior's covariance is not the kernel's at the inputs: they differ by up to {off:.3g}. Give "
                "ControlVariables the kernel and the inputs that the prior was made with, in the same order."
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
    """Matrices that turn standard normals into draws."""

    of_f: np.ndarray
    """Of f given f_c, less its mean."""
    of_controls: np.ndarray
    """Of f_c given f, less its mean."""


@pytree
class Conditionals:
    """The conditionals of [f, f_c], as matrices."""

    to_f: Any
    """The mean of f given f_c is f_c @ to_f."""
    from_f: Any
    """The mean of f_c given f is f @ from_f."""
    weights: Any
    """The mean of f_c[i] given the other control variables is weights[i] @ f_c; weights[i, i] is 0."""
    deviations: Any
    """The standard deviation of each control variable given the others."""
    host: HostOnly
    """The `Spread`: draws are made on the host."""

    def __init__(self, to_f: Any, from_f: Any, weights: Any, deviations: Any, spread: Spread | None):
        set_fields(self, to_f=to_f, from_f=from_f, weights=weights, deviations=deviations, host=HostOnly(spread))

    @property
    def spread(self) -> Spread:
        """Matrices that turn standard normals into draws, on the host."""
        return self.host.value

    @classmethod
    def of_prior(cls, factor: np.ndarray, own: np.ndarray, between: np.ndarray, among: np.ndarray) -> Conditionals:
        """Return the conditionals for a prior with covariance factor.T @ factor.

        Parameters
        ----------
        factor : array, shape (noise_size, size)
        own : array, shape (noise_size, n)
            The columns of `factor` for the values that control variables depend on.
        between : array, shape (n, M)
            Covariance of these values with f_c.
        among : array, shape (M, M)
            Covariance of f_c.
        """
        nugget = NUGGET * float(np.mean(among.diagonal()))
        from_f = np.linalg.solve(own.T @ own + nugget * np.eye(own.shape[1]), between)
        control_spread = _root(among - between.T @ from_f, least=nugget)
        from_f = np.pad(from_f, [(0, factor.shape[1] - own.shape[1]), (0, 0)])
        # From here on exact: f = z @ factor and f_c = f @ from_f + noise, whatever from_f and the noise may be.
        shared = factor @ from_f
        precision = np.linalg.inv(shared.T @ shared + control_spread.T @ control_spread)
        variances = 1 / precision.diagonal()
        return cls(
            to_f=precision @ shared.T @ factor,
            from_f=from_f,
            weights=np.eye(len(precision)) - precision * variances[:, None],
            deviations=np.sqrt(variances),
            spread=Spread(_root(np.eye(len(factor)) - shared @ precision @ shared.T) @ factor, control_spread),
        )

    def padded(self, more: int) -> Conditionals:
        """Return the same with more control variables, which are independent of f and never move."""
        last = (0, more)
        return Conditionals(
            to_f=np.pad(self.to_f, [last, (0, 0)]),
            from_f=np.pad(self.from_f, [(0, 0), last]),
            weights=np.pad(self.weights, [last, last]),
            deviations=np.pad(self.deviations, last),
            spread=None,
        )


def _root(covariance: np.ndarray, least: float = 0.0) -> np.ndarray:
    """Rows with covariance = rows.T @ rows, where eigenvalues below `least` are taken to be that."""
    values, vectors = np.linalg.eigh(covariance)
    return np.sqrt(np.maximum(values, least))[:, None] * vectors.T

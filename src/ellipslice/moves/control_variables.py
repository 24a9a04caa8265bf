"""Control variables (Titsias, Lawrence & Rattray 2009): Section 3.2 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ellipslice.moves.arithmetic import fold, put, where
from ellipslice.moves.base import Info, Lots, Move, State, Target
from ellipslice.moves.control_inputs import NUGGET, ControlInputs
from ellipslice.moves.metropolis import metropolis
from ellipslice.noise import Noise, aligned_empty
from ellipslice.priors import Prior
from ellipslice.priors.carried import Carried
from ellipslice.priors.conditional import as_block
from ellipslice.priors.features import as_inputs
from ellipslice.priors.kernels import covariance_function, covariance_matrix
from ellipslice.pytree import pytree, set_fields
from ellipslice.settings import jax_settings

LIMIT = 5_000
"""Most values of a prior, whose covariance with the control variables becomes a dense matrix."""


class ControlVariables(Move):
    """Move f through a few control variables f_c, values of the same Gaussian process at inputs of their own.

    One update is a sweep: each control variable in turn is redrawn from its prior given the other ones, then all of f
    from its prior given f_c, and both are accepted with probability min(1, L(f') / L(f)). Good where few inputs
    determine f: smooth functions of one or two inputs. In many dimensions f' is too far from f to be accepted
    (Section 4.2 of the paper). The inputs are best found by `ellipslice.tune_controls`.

    Parameters
    ----------
    kernel : callable, tinygp kernel or scikit-learn kernel
        The prior's. A callable takes inputs (N, D) and (M, D), or (N,) and (M,) if they have one axis, and returns
        (N, M).
    inputs : array, shape (N,) or (N, D)
        Where the values of f are.
    controls : array, shape (M,) or (M, D)
        Where the control variables are; at most as many as values.

    Notes
    -----
    Valid because (f, f_c) has a joint Gaussian prior under which f is N(0, Sigma); what is proposed is drawn from its
    conditionals, so the prior cancels from the acceptance ratio. At the start of an update f_c is drawn given f: that
    leaves the joint posterior as it is, and the state of a chain is f alone. (The original keeps f_c from one sweep to
    the next.) The joint prior is the prior's Sigma times a Gaussian for f_c given f, which has the kernel's mean and
    covariance but for 1e-7 of the variance on the diagonals: what is divided by is never singular, and the chain leaves
    Sigma as it is to rounding.

    Set-up costs O(N^3). An update takes M evaluations and O(M N) beside the M draws of f given f_c, which are made for
    a block of updates at once. `angle` is the share of proposals that were accepted.

    Examples
    --------
    >>> import numpy as np
    >>> import ellipslice as es
    >>> kernel = lambda x, y: np.exp(-0.5 * (x[:, None] - y) ** 2)
    >>> x = np.linspace(0, 1, 50)
    >>> move = es.moves.ControlVariables(kernel, x, [0.0, 0.5, 1.0])
    >>> log_likelihood = es.likelihoods.Gaussian(np.sin(4 * x), 0.3)
    >>> tree = es.sample(log_likelihood, es.Dense(kernel(x, x)), move=move, draws=200, seed=1)
    >>> tree.attrs["evaluations"] / tree.attrs["updates"]
    3.0
    """

    def __init__(self, kernel: Any, inputs: Any, controls: Any):
        inputs, controls = as_inputs(inputs, "inputs"), as_inputs(controls, "controls")
        if inputs.shape[1:] != controls.shape[1:]:
            raise ValueError(
                f"inputs has shape {inputs.shape} and controls {controls.shape}; expected the same number of columns."
            )
        if len(controls) > len(inputs):
            raise ValueError(
                f"there are {len(controls)} controls for {len(inputs)} values; expected at most as many. Use fewer."
            )
        self._where: _AtInputs | _AtValues = _AtInputs(kernel, inputs, controls)

    @classmethod
    def at_values(cls, values: Sequence[int]) -> ControlVariables:
        """Some of the values themselves are the control variables, given as indices into the flat vector.

        For priors that have no kernel. The inputs are then not optimised.
        """
        move = object.__new__(cls)
        move._where = _AtValues(tuple(as_block(values, 1 + max(values)).tolist()))
        return move

    @classmethod
    def chosen(
        cls, kernel: Any, inputs: Any, *, share: float = 0.1, increment: int = 1, seed: int = 0
    ) -> ControlVariables:
        """As many controls as leave less than a share of the prior's variance, where they leave least of it.

        `tune_controls` does the same and then adds more until they move, which depends on the likelihood.
        """
        controls = ControlInputs(kernel, inputs, np.random.default_rng(seed), increment)
        controls.grow_until(share)
        return cls(kernel, inputs, controls.points)

    @property
    def controls(self) -> np.ndarray:
        """Where the control variables are: inputs, or indices of values."""
        return self._where.controls

    def prepare(self, prior: Prior) -> Prepared:
        """The conditionals of the joint prior of f and its control variables."""
        carried = prior.size - prior.base.size if isinstance(prior, Carried) else 0
        if prior.size > LIMIT:
            rows = f" and the {carried} rows of Linear's A" if carried else ""
            raise ValueError(
                f"ControlVariables makes dense matrices of the prior's {prior.size - carried} values{rows}; at most "
                f"{LIMIT} are taken. Use EllipticalSlice."
            )
        try:
            with jax_settings():
                factor = np.asarray(prior.color(np.eye(prior.noise_size)))
        except TypeError as error:
            raise TypeError(f"ControlVariables needs the prior's covariance. {error} Or EllipticalSlice.") from None
        own = factor[:, : prior.size - carried]  # control variables depend on f alone, and what is carried on f
        return Prepared(factor, own, *self._where.covariances(own.T @ own))

    def lots(self, prior: Prior, prepared: Prepared) -> Lots:
        count = len(prepared.deviations)
        return Lots(_Rows(prepared, prior.size), count + 2, count)

    def step(self, noise: Noise, state: State, target: Target) -> tuple[State, Info]:
        """A sweep over the control variables."""
        state, info, accepted = sweep(noise, state, target)
        return state, info._replace(angle=accepted.mean())

    def __repr__(self) -> str:
        return f"ControlVariables({self._where!r})"

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and self._where == other._where

    def __hash__(self) -> int:
        return hash((type(self), self._where))


def sweep(noise: Noise, state: State, target: Target) -> tuple[State, Info, Any]:
    """A sweep, which also says of each control variable whether its proposal was accepted."""
    known: Prepared = target.prepared
    count = len(known.deviations)
    normals, fresh = noise.nu[count, :count], noise.nu[count + 1, :count]
    f_c = state.f @ known.from_f + fresh

    def one(carry: Any, row: Any) -> tuple[Any, Any]:
        state, f_c, mean = carry
        i, nu, level, normal, weights, deviation, to_f = row
        moved = weights @ f_c + deviation * normal  # given the other control variables
        new_mean = mean + (moved - f_c[i]) * to_f
        new, info = metropolis(new_mean + nu, state.log_likelihood - level, 1.0, state, target)
        accepted = info.angle != 0
        f_c, mean = where(accepted, put(f_c, i, moved), f_c), where(accepted, new_mean, mean)
        return (new, f_c, mean), (accepted, info.nans)

    numbers, draws = np.arange(count), noise.nu[:count]
    rows = (numbers, draws, noise.level, normals, known.weights, known.deviations, known.to_f)
    (state, *_), (accepted, nans) = fold(one, (state, f_c, f_c @ known.to_f), rows)
    return state, Info(count, nans.sum(dtype=np.int32), False, 0.0), accepted


class _AtValues:
    """Control variables that are values of f, but for their noise."""

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
        return isinstance(other, _AtValues) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)


class _AtInputs:
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
        return isinstance(other, _AtInputs) and self._kernel is other._kernel and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@pytree
class Prepared:
    """The conditionals of [f, f_c], as matrices."""

    to_f: Any
    """The mean of f given f_c is f_c @ to_f."""
    from_f: Any
    """The mean of f_c given f is f @ from_f."""
    weights: Any
    """The mean of f_c[i] given the other control variables is weights[i] @ f_c; weights[i, i] is 0."""
    deviations: Any
    """And its deviation."""

    # Not fields: used on the host only.
    spread: ClassVar[np.ndarray]
    """Standard normals times this are draws of f given f_c, less its mean."""
    control_spread: ClassVar[np.ndarray]
    """The same for f_c given f."""

    def __init__(self, factor: np.ndarray, own: np.ndarray, between: np.ndarray, among: np.ndarray):
        nugget = NUGGET * float(np.mean(among.diagonal()))
        from_f = np.linalg.solve(own.T @ own + nugget * np.eye(own.shape[1]), between)
        control_spread = _root(among - between.T @ from_f, least=nugget)
        from_f = np.pad(from_f, [(0, factor.shape[1] - own.shape[1]), (0, 0)])
        # From here on exact: f = z @ factor and f_c = f @ from_f + noise, whatever from_f and the noise may be.
        shared = factor @ from_f
        precision = np.linalg.inv(shared.T @ shared + control_spread.T @ control_spread)
        variances = 1 / precision.diagonal()
        set_fields(
            self,
            to_f=precision @ shared.T @ factor,
            from_f=from_f,
            weights=np.eye(len(precision)) - precision * variances[:, None],
            deviations=np.sqrt(variances),
            spread=_root(np.eye(len(factor)) - shared @ precision @ shared.T) @ factor,
            control_spread=control_spread,
        )

    def padded(self, more: int) -> Prepared:
        """The same with more control variables, which have nothing to do with f and stay where they are."""
        copy, last = object.__new__(Prepared), (0, more)
        set_fields(
            copy,
            to_f=np.pad(self.to_f, [last, (0, 0)]),
            from_f=np.pad(self.from_f, [(0, 0), last]),
            weights=np.pad(self.weights, [last, last]),
            deviations=np.pad(self.deviations, last),
        )
        return copy


def _root(covariance: np.ndarray, least: float = 0.0) -> np.ndarray:
    """Rows with covariance = rows.T @ rows, where eigenvalues below `least` are taken to be that."""
    values, vectors = np.linalg.eigh(covariance)
    return np.sqrt(np.maximum(values, least))[:, None] * vectors.T


class _Rows:
    """The noise of a sweep: M draws of f given f_c, M standard normals, and one draw of f_c given f."""

    def __init__(self, prepared: Prepared, size: int):
        self._known, self._size = prepared, size

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """As many rows as asked for, a whole number of updates'; shape (count, size)."""
        controls = len(self._known.deviations)
        length = count // (controls + 2)
        flat = aligned_empty((count, self._size))
        flat[:] = 0.0
        rows = flat.reshape(length, controls + 2, self._size)
        rows[:, :controls] = rng.standard_normal((length, controls, len(self._known.spread))) @ self._known.spread
        rows[:, controls, :controls] = rng.standard_normal((length, controls))
        rows[:, controls + 1, :controls] = rng.standard_normal((length, controls)) @ self._known.control_spread
        return flat

"""Control variables (Titsias, Lawrence & Rattray 2009): Section 3.2 of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ellipslice.jax_settings import jax_settings
from ellipslice.moves.array_ops import scan, set_block, where
from ellipslice.moves.base import Info, Move, State, Target
from ellipslice.moves.control_conditionals import AtInputs, AtValues, Conditionals
from ellipslice.moves.control_inputs import ControlInputs
from ellipslice.moves.metropolis import metropolis
from ellipslice.noise import NoiseSpec, UpdateNoise
from ellipslice.priors import Prior
from ellipslice.priors.parts.augmented import PredictorPrior
from ellipslice.priors.parts.conditional import as_block
from ellipslice.priors.parts.features import as_inputs

MAX_DENSE_SIZE = 5_000
"""Largest size of a prior. The covariance of f with the control variables is a dense matrix."""


class ControlVariables(Move):
    """Updates of f by a few control variables f_c, which are values of the latent function at other inputs.

    One update is a sweep over the control variables. Each one in turn is drawn from its prior given the others, then
    all of f from its prior given f_c, and both are accepted with probability min(1, L(f') / L(f)). It works well if few
    inputs determine f, as for smooth functions of one or two inputs. In many dimensions f' is too far from f to be
    accepted (Section 4.2 of the paper). `ellipslice.tune_controls` finds the inputs.

    Parameters
    ----------
    kernel : callable, tinygp kernel or scikit-learn kernel
        Kernel of the prior. A callable takes inputs (N, D) and (M, D), or (N,) and (M,) if they have one axis, and
        returns (N, M).
    inputs : array, shape (N,) or (N, D)
        Inputs of the elements of f.
    controls : array, shape (M,) or (M, D)
        Inputs of the control variables. M is at most N.

    Raises
    ------
    ValueError
        If the arrays have wrong shapes, or M is greater than N.

    Notes
    -----
    Why it is valid: (f, f_c) has a joint Gaussian prior under which f is N(0, Sigma). Proposals are drawn from its
    conditionals, so the prior cancels from the acceptance ratio. At the start of an update f_c is drawn given f, which
    leaves the joint posterior invariant, so the state of a chain is only f. (The original method keeps f_c between
    sweeps.) The joint prior is N(f; 0, Sigma) times a Gaussian for f_c given f. That one has the mean and covariance of
    the kernel, except for 1e-7 of the variance on the diagonals, so no matrix is singular. The chain keeps Sigma up to
    rounding error.

    Set-up costs O(N^3). The prior may have at most 5,000 elements. An update costs M evaluations, M draws of f given
    f_c, which are made for a block of updates in one call, and O(M N). The statistic `acceptance` is the acceptance
    rate of an update, and `angle` has the same value.

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

    stored_as = "ControlVariables"
    statistics: ClassVar[Mapping[str, type]] = MappingProxyType({"acceptance": float})

    def __init__(self, kernel: Any, inputs: Any, controls: Any):
        inputs, controls = as_inputs(inputs, "inputs"), as_inputs(controls, "controls")
        if inputs.shape[1:] != controls.shape[1:]:
            raise ValueError(
                f"inputs has shape {inputs.shape} and controls {controls.shape}; expected the same number of columns."
            )
        if len(controls) > len(inputs):
            raise ValueError(
                f"controls has {len(controls)} inputs, but f has only {len(inputs)} elements. Use fewer controls."
            )
        self._where: AtInputs | AtValues = AtInputs(kernel, inputs, controls)

    @classmethod
    def at_values(cls, values: Sequence[int]) -> ControlVariables:
        """Use some elements of f as the control variables.

        This is for priors without a kernel. The positions are not optimised.

        Parameters
        ----------
        values : sequence of int
            Indices into the flat vector.
        """
        move = object.__new__(cls)
        move._where = AtValues(tuple(as_block(values, 1 + max(values)).tolist()))
        return move

    @classmethod
    def chosen(
        cls, kernel: Any, inputs: Any, *, residual_variance: float = 0.1, increment: int = 1, seed: int = 0
    ) -> ControlVariables:
        """Choose number and inputs of the control variables by the variance of f that they do not explain.

        `tune_controls` does the same, and then adds more until proposals are accepted, which depends on the likelihood.

        Parameters
        ----------
        kernel, inputs
            See `ControlVariables`.
        residual_variance : float
            Largest variance of f given the control variables, as a fraction of the prior variance. Default: 0.1.
        increment : int
            Number of control variables that are added at a time. Default: 1.
        seed : int
            Seed of the order in which data points become control inputs. Default: 0.
        """
        controls = ControlInputs(kernel, inputs, np.random.default_rng(seed), increment)
        controls.grow_until(residual_variance)
        return cls(kernel, inputs, controls.points)

    @property
    def controls(self) -> np.ndarray:
        """Inputs of the control variables, shape (M,) or (M, D); or indices, for `at_values`."""
        return self._where.controls

    def prepare(self, prior: Prior) -> Conditionals:
        """Return the conditionals of the joint prior of f and its control variables."""
        predictor_rows = prior.size - prior.base.size if isinstance(prior, PredictorPrior) else 0
        if prior.size > MAX_DENSE_SIZE:
            rows = f" and the {predictor_rows} rows of LinearPredictor's design matrix" if predictor_rows else ""
            raise ValueError(
                f"ControlVariables makes dense matrices of the prior's {prior.size - predictor_rows} elements{rows}; "
                f"expected at most {MAX_DENSE_SIZE}. Use EllipticalSlice."
            )
        try:
            with jax_settings():
                factor = np.asarray(prior.unwhiten(np.eye(prior.noise_size)))
        except TypeError as error:
            raise TypeError(f"ControlVariables needs the prior's covariance. {error} Or use EllipticalSlice.") from None
        own = factor[:, : prior.size - predictor_rows]  # control variables depend on f, not on the predictor A f
        return Conditionals.of_prior(factor, own, *self._where.covariances(own.T @ own))

    def noise_spec(self, prior: Prior, prepared: Conditionals) -> NoiseSpec:
        count, spread = len(prepared.deviations), prepared.spread

        def draw(rng: np.random.Generator, updates: int) -> ControlDraws:
            return ControlDraws(
                given_controls=rng.standard_normal((updates, count, len(spread.of_f))) @ spread.of_f,
                normals=rng.standard_normal((updates, count)),
                controls=rng.standard_normal((updates, count)) @ spread.of_controls,
            )

        return NoiseSpec(draw, searches=count, numbers=prior.size * (count + 2))

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Make a sweep over the control variables."""
        state, info, accepted = sweep(noise, state, target)
        rate = accepted.mean()
        return state, info._replace(angle=rate, more=(rate,))

    def __repr__(self) -> str:
        return f"ControlVariables({self._where!r})"

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and self._where == other._where

    def __hash__(self) -> int:
        return hash((type(self), self._where))


class ControlDraws(NamedTuple):
    """The random numbers of one sweep over M control variables."""

    given_controls: Any
    """Draws of f given f_c, without the mean, shape (M, size)."""
    normals: Any
    """A standard normal for each control variable given the others, shape (M,)."""
    controls: Any
    """A draw of f_c given f, without the mean, shape (M,)."""


class Proposal(NamedTuple):
    """The inputs of the update of one control variable: a row of each array of a sweep."""

    number: Any
    given_controls: Any
    level: Any
    normal: Any
    weights: Any
    deviation: Any
    to_f: Any


def sweep(noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info, Any]:
    """Make a sweep. Return the state, its statistics, and for each control variable whether it was accepted."""
    known: Conditionals = target.prepared
    draws: ControlDraws = noise.drawn
    count = len(known.deviations)
    f_c = state.f @ known.from_f + draws.controls

    def one(carry: Any, row: Any) -> tuple[Any, Any]:
        (state, f_c, mean), own = carry, Proposal(*row)
        moved = own.weights @ f_c + own.deviation * own.normal  # given the other control variables
        new_mean = mean + (moved - f_c[own.number]) * own.to_f
        log_y = state.log_likelihood - own.level
        new, info = metropolis(new_mean + own.given_controls, log_y, 1.0, state, target)
        accepted = info.angle != 0
        f_c, mean = where(accepted, set_block(f_c, own.number, moved), f_c), where(accepted, new_mean, mean)
        return (new, f_c, mean), (accepted, info.nan_evaluations)

    rows = Proposal(
        np.arange(count),
        draws.given_controls,
        noise.level,
        draws.normals,
        known.weights,
        known.deviations,
        known.to_f,
    )
    (state, *_), (accepted, nans) = scan(one, (state, f_c, f_c @ known.to_f), rows)
    return state, Info(count, nans.sum(dtype=np.int32), False, 0.0), accepted

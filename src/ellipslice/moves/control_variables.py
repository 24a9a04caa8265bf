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
    a block of updates at once. The statistic `acceptance` is the acceptance rate of an update, and `angle` is the same.

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
                f"there are {len(controls)} controls for {len(inputs)} values; expected at most as many. Use fewer."
            )
        self._where: AtInputs | AtValues = AtInputs(kernel, inputs, controls)

    @classmethod
    def at_values(cls, values: Sequence[int]) -> ControlVariables:
        """Some of the values themselves are the control variables, given as indices into the flat vector.

        For priors that have no kernel. The inputs are then not optimised.
        """
        move = object.__new__(cls)
        move._where = AtValues(tuple(as_block(values, 1 + max(values)).tolist()))
        return move

    @classmethod
    def chosen(
        cls, kernel: Any, inputs: Any, *, residual_variance: float = 0.1, increment: int = 1, seed: int = 0
    ) -> ControlVariables:
        """As many controls as leave less than a share of the prior's variance, where they leave least of it.

        `tune_controls` does the same and then adds more until they move, which depends on the likelihood.
        """
        controls = ControlInputs(kernel, inputs, np.random.default_rng(seed), increment)
        controls.grow_until(residual_variance)
        return cls(kernel, inputs, controls.points)

    @property
    def controls(self) -> np.ndarray:
        """Where the control variables are: inputs, or indices of values."""
        return self._where.controls

    def prepare(self, prior: Prior) -> Conditionals:
        """Return the conditionals of the joint prior of f and its control variables."""
        carried = prior.size - prior.base.size if isinstance(prior, PredictorPrior) else 0
        if prior.size > LIMIT:
            rows = f" and the {carried} rows of LinearPredictor's design matrix" if carried else ""
            raise ValueError(
                f"ControlVariables makes dense matrices of the prior's {prior.size - carried} values{rows}; at most "
                f"{LIMIT} are taken. Use EllipticalSlice."
            )
        try:
            with jax_settings():
                factor = np.asarray(prior.unwhiten(np.eye(prior.noise_size)))
        except TypeError as error:
            raise TypeError(f"ControlVariables needs the prior's covariance. {error} Or EllipticalSlice.") from None
        own = factor[:, : prior.size - carried]  # control variables depend on f alone, and what is carried on f
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
    """What is drawn for one sweep over M control variables."""

    given_controls: Any
    """Draws of f given f_c, less its mean: shape (M, size)."""
    normals: Any
    """A standard normal for each control variable given the others: shape (M,)."""
    controls: Any
    """A draw of f_c given f, less its mean: shape (M,)."""


class Proposal(NamedTuple):
    """What the update of one control variable needs: a row of each array of a sweep."""

    number: Any
    given_controls: Any
    level: Any
    normal: Any
    weights: Any
    deviation: Any
    to_f: Any


def sweep(noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info, Any]:
    """Make a sweep, and also return for each control variable whether its proposal was accepted."""
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

"""Choose the number and positions of control inputs for `moves.ControlVariables`."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.checks import warn, whole_number
from ellipslice.engines.choose import choose_engine
from ellipslice.engines.compiled.search import CompiledTarget
from ellipslice.engines.host.engine import HostTarget
from ellipslice.engines.threads import limit_blas_threads
from ellipslice.jax_settings import on_cpu
from ellipslice.machine import available_cores
from ellipslice.moves import ControlVariables, EllipticalSlice, State
from ellipslice.moves.control_conditionals import Conditionals
from ellipslice.moves.control_inputs import ControlInputs
from ellipslice.moves.control_variables import ControlDraws, sweep
from ellipslice.noise import UpdateNoise, draw_block, generator
from ellipslice.posterior import Posterior
from ellipslice.priors import Prior
from ellipslice.programs.traced import compilable

WARMUP_SWEEPS, COUNTED_SWEEPS = 100, 200
"""Sweeps of a round that are discarded, and those by which acceptance rates are computed."""

CONTROLS_PER_PROGRAM = 8
"""Control variables are padded to a multiple of this number, so that one compiled program serves several numbers."""

MIN_ACCEPTANCE = 0.2
"""A round passes if the acceptance rate of every control variable is above this, divided by their number."""


class TunedControls(NamedTuple):
    """Result of `tune_controls`."""

    move: ControlVariables
    """Move with the chosen control inputs."""
    initial: Any
    """Last state of the adaptation, for `sample(initial=...)`."""
    acceptance_rate: np.ndarray
    """Acceptance rate of each control variable in the last round, shape (control inputs,)."""
    residual_variance: float
    """Variance of f given the control variables, as a fraction of the prior variance."""
    rounds: int
    """Number of rounds that were run."""


def tune_controls(
    kernel: Any,
    inputs: Any,
    log_likelihood: Callable[..., Any],
    prior: Prior,
    *,
    residual_variance: float = 0.1,
    increment: int = 1,
    rounds: int = 80,
    seed: int | None = None,
    engine: str | None = None,
) -> TunedControls:
    """Choose the number and positions of control inputs for `moves.ControlVariables`, by preliminary runs.

    The method is that of Titsias, Lawrence & Rattray (2009), with the settings of the paper's code:

    1. Inputs are added until the residual variance of f is below a fraction of the prior variance. Their positions
       minimise it.
    2. Rounds of 300 sweeps are run. A round passes if every control variable has an acceptance rate above 0.2 / M, for
       M control inputs. After every second round, inputs are added if that round did not pass.
    3. The adaptation ends with the second round that passes.

    Parameters
    ----------
    kernel, inputs
        Kernel and inputs of the prior, as for `moves.ControlVariables`.
    log_likelihood, prior
        Model, as for `sample`.
    residual_variance : float
        Largest variance of f given the control variables before the first round, as a fraction of the prior variance.
        Between 0 and 1. Default: 0.1.
    increment : int
        Number of inputs that are added at a time. At least 1. Default: 1. The paper uses 1, and 20 for the USPS digits.
    rounds : int
        Largest number of rounds. At least 1. Default: 80.
    seed : int, optional
        Seed of the adaptation. Default: a random one.
    engine : str, optional
        Engine that evaluates the log-likelihood, as for `sample`.

    Returns
    -------
    TunedControls
        The move, an initial state for `sample`, and statistics of the adaptation.

    Raises
    ------
    ValueError
        If an argument is out of range, or the likelihood is zero at 100 draws around the prior mean.

    Warns
    -----
    UserWarning
        If fewer than two rounds passed.

    Examples
    --------
    >>> import jax.numpy as jnp, numpy as np
    >>> import ellipslice as es
    >>> kernel = lambda x, y: jnp.exp(-0.5 * (x[:, None] - y) ** 2)
    >>> x = np.linspace(0, 1, 50)
    >>> prior, log_likelihood = es.Dense(kernel(x, x)), es.likelihoods.Gaussian(np.sin(4 * x), 0.3)
    >>> tuned = es.tune_controls(kernel, x, log_likelihood, prior, seed=1)
    >>> tuned.move
    ControlVariables(4 inputs in 1 dimension)
    >>> tree = es.sample(log_likelihood, prior, move=tuned.move, initial=tuned.initial, draws=100, seed=1)
    """
    if not 0 < residual_variance < 1:
        raise ValueError(f"residual_variance must be between 0 and 1, but it is {residual_variance}.")
    increment = whole_number("increment", increment, 1, "a whole number, at least 1")
    rounds = whole_number("rounds", rounds, 1, "a whole number, at least 1")
    seed = secrets.randbits(32) if seed is None else seed
    posterior = Posterior(prior, log_likelihood)
    with (
        on_cpu(),
        limit_blas_threads(available_cores()),
    ):  # the matrix products are small, and more threads would slow them down
        controls = ControlInputs(kernel, inputs, generator(seed, 0), increment)
        controls.grow_until(residual_variance)
        adaptation = _Adaptation(kernel, inputs, posterior, engine, seed)
        adaptation.use(controls)
        passed = 0
        for number in range(1, rounds + 1):
            this_passed = adaptation.round(number)
            passed += this_passed
            if passed == 2:
                break
            if number % 2 == 0 and not this_passed and not controls.exhausted:
                controls.grow()
                adaptation.use(controls)
    _warn_if_not_passed(controls, passed, number)
    initial = posterior.log_likelihood.unpack(adaptation.state.f)["f"]
    return TunedControls(adaptation.move, initial, adaptation.acceptance, controls.residual_variance, number)


class _Adaptation:
    """A chain of sweeps whose control inputs change between rounds."""

    move: ControlVariables
    state: State
    acceptance: np.ndarray

    def __init__(self, kernel: Any, inputs: Any, posterior: Posterior, engine: str | None, seed: int):
        self._kernel, self._inputs, self._prior, self._seed = kernel, inputs, posterior.prior, seed
        trial = np.asarray(self._prior.draw_zero_mean(generator(seed, 1), 1))[0]
        chosen = choose_engine(posterior, engine, trial, EllipticalSlice())[0]
        self._evaluate = chosen.evaluate
        self._compiled = compilable(posterior.log_likelihood, self._prior.size) if chosen.traced else None

    def use(self, controls: ControlInputs) -> None:
        """Use new control inputs, and keep the state."""
        self.move = ControlVariables(self._kernel, self._inputs, controls.points)
        self._prepared = self.move.prepare(self._prior)
        if not hasattr(self, "state"):
            self.state = self._start(self._prepared.spread.of_f)

    def _start(self, spread: np.ndarray) -> State:
        """Return the initial state: a draw of f given that all control variables are 0."""
        for f in generator(self._seed, 2).standard_normal((100, len(spread))) @ spread:
            log_likelihood = self._evaluate(f)
            if np.isfinite(log_likelihood):
                return State(f, log_likelihood)
        raise ValueError(
            "the likelihood is zero at 100 draws around the prior mean, so the adaptation found no initial state. Use "
            "EllipticalSlice, with initial= at a point where the likelihood is positive."
        )

    def round(self, number: int) -> bool:
        """Run the sweeps of a round. Return whether every control variable was accepted often enough."""
        spec = self.move.noise_spec(self._prior, self._prepared)
        noise = draw_block(spec, self._seed, 0, 1 + number, WARMUP_SWEEPS + COUNTED_SWEEPS)
        run_sweeps = self._sweeps_on_host if self._compiled is None else self._sweeps_compiled
        self.state, accepted = run_sweeps(noise)
        self.acceptance = accepted[WARMUP_SWEEPS:].mean(axis=0)
        return bool(self.acceptance.min() > MIN_ACCEPTANCE / spec.searches)

    def _sweeps_on_host(self, noise: UpdateNoise) -> tuple[State, np.ndarray]:
        """Return the last state, and whether each control variable was accepted in each sweep."""
        state, accepted, target = self.state, [], HostTarget(self._evaluate, self._prepared)
        for update, level in enumerate(noise.level.tolist()):
            state, _, moved = sweep(noise.at(update)._replace(level=level), state, target)
            accepted.append(moved)
        return state, np.array(accepted)

    def _sweeps_compiled(self, noise: UpdateNoise) -> tuple[State, np.ndarray]:
        """Run the sweeps of `_sweeps_on_host` by compiled code.

        Control variables that are never accepted are added, so one program serves several numbers of them.
        """
        count, size = noise.level.shape[1], self._prior.size
        padding = (0, min(count + -count % CONTROLS_PER_PROGRAM, size) - count)
        draws: ControlDraws = noise.drawn
        padded = ControlDraws(
            np.pad(draws.given_controls, [(0, 0), padding, (0, 0)]),
            np.pad(draws.normals, [(0, 0), padding]),
            np.pad(draws.controls, [(0, 0), padding]),
        )
        level = np.pad(
            noise.level, [(0, 0), padding], constant_values=-np.inf
        )  # a slice level that no proposal reaches
        state, accepted = _compiled_sweeps(
            self._compiled, self._prepared.padded(padding[1]), self.state, UpdateNoise(padded, level, None)
        )
        return jax.tree.map(np.asarray, state), np.asarray(accepted)[:, :count]


@jax.jit
def _compiled_sweeps(likelihood: Any, prepared: Conditionals, state: State, noise: UpdateNoise) -> tuple[State, Any]:
    """Run the sweeps of a round in one compiled loop."""
    target = CompiledTarget(likelihood, prepared)

    def one(state: State, noise: UpdateNoise) -> tuple[State, Any]:
        state, _, accepted = sweep(noise, state, target)
        return state, accepted

    return jax.lax.scan(one, jax.tree.map(jnp.asarray, state), noise)


def _warn_if_not_passed(controls: ControlInputs, passed: int, rounds: int) -> None:
    """Warn if fewer than two rounds passed."""
    if passed == 2:
        return
    why = "there are no more inputs to add" if controls.exhausted else f"{rounds} rounds were not enough"
    warn(
        f"some of the {len(controls.points)} control variables are rarely accepted, and {why}. Control variables suit "
        "functions that few inputs determine. Use EllipticalSlice instead."
    )

"""Control inputs for `moves.ControlVariables`: where they are best, and as many as it takes."""

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

BURN_IN, COUNTED = 100, 200
"""Sweeps of a round of adaptation."""

TOGETHER = 8
"""Compiled code is used again until there are this many more of them."""

ACCEPTED = 0.2
"""A round passes if every control variable has at least this share accepted, divided by how many there are."""


class TunedControls(NamedTuple):
    """What the adaptation found."""

    move: ControlVariables
    """The one to use."""
    initial: Any
    """Where the adaptation ended: a start for `sample`."""
    acceptance_rate: np.ndarray
    """The share of each control variable's proposals that the last round accepted."""
    residual_variance: float
    """The share of the prior's variance that f has left, given the control variables."""
    rounds: int
    """Rounds of adaptation that were run."""


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
    """Control inputs for `moves.ControlVariables`: where they leave f least variance, and as many as it takes.

    Titsias, Lawrence & Rattray (2009), with the settings of the code that the paper ran. Inputs are added until less
    than a share of the prior's variance is left. Then rounds of 300 sweeps are run, and after every second one in which
    some control variable had less than 0.2 / M of its proposals accepted, more inputs are added. It ends with the
    second round in which none had.

    Parameters
    ----------
    kernel, inputs
        As for `moves.ControlVariables`.
    log_likelihood, prior, seed, engine
        As for `sample`.
    residual_variance : float
        Of the prior's variance, in (0, 1).
    increment : int
        Inputs added at a time. The paper has 1, and 20 for its 767 digits.
    rounds : int
        The most to run.

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
        raise ValueError(f"residual_variance must lie in (0, 1), but it is {residual_variance}.")
    increment = whole_number("increment", increment, 1, "a whole number, at least 1")
    rounds = whole_number("rounds", rounds, 1, "a whole number, at least 1")
    seed = secrets.randbits(32) if seed is None else seed
    posterior = Posterior(prior, log_likelihood)
    with (
        on_cpu(),
        limit_blas_threads(available_cores()),
    ):  # many small products, which more threads would only slow down
        controls = ControlInputs(kernel, inputs, generator(seed, 0), increment)
        controls.grow_until(residual_variance)
        adaptation = _Adaptation(kernel, inputs, posterior, engine, seed)
        adaptation.use(controls)
        passed = 0
        for number in range(1, rounds + 1):
            enough = adaptation.round(number)
            passed += enough
            if passed == 2:
                break
            if number % 2 == 0 and not enough and not controls.exhausted:
                controls.grow()
                adaptation.use(controls)
    _warn_of_controls(controls, passed, number)
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
        """Take new control inputs; the state is carried over."""
        self.move = ControlVariables(self._kernel, self._inputs, controls.points)
        self._prepared = self.move.prepare(self._prior)
        if not hasattr(self, "state"):
            self.state = self._start(self._prepared.spread.of_f)

    def _start(self, spread: np.ndarray) -> State:
        """A draw of f given that all control variables are 0."""
        for f in generator(self._seed, 2).standard_normal((100, len(spread))) @ spread:
            log_likelihood = self._evaluate(f)
            if np.isfinite(log_likelihood):
                return State(f, log_likelihood)
        raise ValueError(
            "the likelihood is zero at 100 draws around the prior's mean, so the adaptation has nowhere to start. Use "
            "EllipticalSlice, with a start of your own."
        )

    def round(self, number: int) -> bool:
        """Make a round's sweeps; whether every control variable moved often enough."""
        spec = self.move.noise_spec(self._prior, self._prepared)
        noise = draw_block(spec, self._seed, 0, 1 + number, BURN_IN + COUNTED)
        make = self._sweeps_on_host if self._compiled is None else self._sweeps_compiled
        self.state, accepted = make(noise)
        self.acceptance = accepted[BURN_IN:].mean(axis=0)
        return bool(self.acceptance.min() > ACCEPTED / spec.searches)

    def _sweeps_on_host(self, noise: UpdateNoise) -> tuple[State, np.ndarray]:
        """Return the last state and, for each sweep and control variable, whether it moved."""
        state, accepted, target = self.state, [], HostTarget(self._evaluate, self._prepared)
        for update, level in enumerate(noise.level.tolist()):
            state, _, moved = sweep(noise.at(update)._replace(level=level), state, target)
            accepted.append(moved)
        return state, np.array(accepted)

    def _sweeps_compiled(self, noise: UpdateNoise) -> tuple[State, np.ndarray]:
        """Do as `_sweeps_on_host`, with more control variables that never move: one program for several numbers."""
        count, size = noise.level.shape[1], self._prior.size
        more = (0, min(count + -count % TOGETHER, size) - count)
        draws: ControlDraws = noise.drawn
        padded = ControlDraws(
            np.pad(draws.given_controls, [(0, 0), more, (0, 0)]),
            np.pad(draws.normals, [(0, 0), more]),
            np.pad(draws.controls, [(0, 0), more]),
        )
        level = np.pad(noise.level, [(0, 0), more], constant_values=-np.inf)  # above any likelihood
        state, accepted = _compiled_sweeps(
            self._compiled, self._prepared.padded(more[1]), self.state, UpdateNoise(padded, level, None)
        )
        return jax.tree.map(np.asarray, state), np.asarray(accepted)[:, :count]


@jax.jit
def _compiled_sweeps(likelihood: Any, prepared: Conditionals, state: State, noise: UpdateNoise) -> tuple[State, Any]:
    target = CompiledTarget(likelihood, prepared)

    def one(state: State, noise: UpdateNoise) -> tuple[State, Any]:
        state, _, accepted = sweep(noise, state, target)
        return state, accepted

    return jax.lax.scan(one, jax.tree.map(jnp.asarray, state), noise)


def _warn_of_controls(controls: ControlInputs, passed: int, rounds: int) -> None:
    if passed == 2:
        return
    why = "there are no more inputs to add" if controls.exhausted else f"{rounds} rounds were not enough"
    warn(
        f"some of the {len(controls.points)} control variables hardly ever move, and {why}. Control variables are for "
        "functions that few inputs determine; use EllipticalSlice."
    )

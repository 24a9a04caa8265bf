"""Settings found by preliminary runs, for moves that have some: elliptical slice sampling has none."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.diagnostics import effective_size
from ellipslice.engines.choose import choose_engine
from ellipslice.engines.host import HostTarget
from ellipslice.engines.threads import CORES, blas_beside
from ellipslice.engines.tracing import compilable
from ellipslice.moves import ControlVariables, EllipticalSlice, Hamiltonian, Move, State
from ellipslice.moves.base import Target
from ellipslice.moves.control_inputs import ControlInputs
from ellipslice.noise import Noise, draw_block, generator
from ellipslice.posterior import Posterior
from ellipslice.priors import Prior
from ellipslice.sampling import sample
from ellipslice.sampling.warn import warn
from ellipslice.settings import jax_settings

GRID = tuple(np.logspace(-2, -0.5, 10).tolist())
"""The authors' grid of step sizes: 0.01, 0.0147, ..., 0.316."""


class Tuned(NamedTuple):
    """What a grid search found."""

    move: Move
    """The one to use."""
    steps: np.ndarray
    """The steps tried."""
    effective_sizes: np.ndarray
    """Of the log-likelihood, for each step: what the choice was made by."""
    acceptance: np.ndarray
    """The share of updates that moved, for each step."""


def tune_step(
    move: Callable[[float], Move],
    log_likelihood: Callable[..., Any],
    prior: Prior,
    *,
    steps: Sequence[float] = GRID,
    draws: int = 30_000,
    warmup: int = 1_000,
    chains: int = 1,
    seed: int | None = None,
    initial: Any = None,
    engine: str | None = None,
) -> Tuned:
    """The step size with the most effective draws, by a preliminary run for each of a few.

    "The step size for Neal's Metropolis method was chosen using a grid search to maximize performance" (Section 4.2);
    grid, lengths and measure are the authors' unless others are given. All steps are run with the same noise.

    Parameters
    ----------
    move : callable
        Makes a move of a step: `moves.NealMetropolis`, `moves.RandomWalk`, or a function such as
        `lambda step: Cycle(NealMetropolis(step), ...)`.
    log_likelihood, prior, seed, initial, engine
        As for `sample`.
    steps : sequence of float
    draws, warmup, chains : int
        Of each run.

    Returns
    -------
    Tuned
        `move` is the best; `steps`, `effective_sizes` (of the log-likelihood, by `diagnostics.effective_size`) and
        `acceptance` are what it was chosen from.

    Examples
    --------
    >>> import jax.numpy as jnp, numpy as np
    >>> import ellipslice as es
    >>> prior, log_likelihood = es.Diagonal(np.ones(3)), lambda f: -8 * jnp.sum((f - 1) ** 2)
    >>> tuned = es.tune_step(es.moves.NealMetropolis, log_likelihood, prior, steps=[0.01, 0.4, 0.99], seed=1)
    >>> tuned.move
    NealMetropolis(step=0.4)
    """
    moves = [_made(move, step) for step in steps]
    if not moves:
        raise ValueError("steps is empty. Give the step sizes to try, such as [0.03, 0.1, 0.3].")
    seed = secrets.randbits(32) if seed is None else seed
    options: dict[str, Any] = {"draws": draws, "warmup": warmup, "chains": chains, "seed": seed, "initial": initial}
    sizes, acceptance = [], []
    for made in moves:
        tree = sample(log_likelihood, prior, move=made, engine=engine, keep=False, progress=False, **options)
        statistics = tree["sample_stats"].to_dataset()
        sizes.append(effective_size(statistics["log_likelihood"]))
        acceptance.append((statistics["angle"].to_numpy() != 0).mean())
    best = int(np.argmax(sizes))
    if len(moves) > 1 and steps[best] in (min(steps), max(steps)):
        which, other = ("smallest", "smaller") if steps[best] == min(steps) else ("largest", "larger")
        warn(f"the best step, {steps[best]:g}, is the {which} of those tried. Try {other} ones too, with steps=[...].")
    return Tuned(moves[best], np.array(steps), np.array(sizes), np.array(acceptance))


def _made(move: Callable[[float], Move], step: float) -> Move:
    if isinstance(move, Move):
        raise TypeError(f"move is {move!r}, whose step is set. Give its class, {type(move).__name__}.")
    made = move(step)
    if not isinstance(made, Move):
        raise TypeError(
            f"move must make a move of a step, as moves.NealMetropolis does, but {move!r} made {made!r} of {step!r}."
        )
    return made


# --- control variables ----------------------------------------------------------------------------------------------

BURN_IN, COUNTED = 100, 200
"""Sweeps of a round of adaptation."""

ACCEPTED = 0.2
"""A round passes if every control variable has at least this share accepted, divided by how many there are."""


class TunedControls(NamedTuple):
    """What the adaptation found."""

    move: ControlVariables
    """The one to use."""
    initial: Any
    """Where the adaptation ended: a start for `sample`."""
    acceptance: np.ndarray
    """The share of each control variable's proposals that the last round accepted."""
    left: float
    """The share of the prior's variance that f has left, given the control variables."""
    rounds: int
    """Rounds of adaptation that were run."""


def tune_controls(
    kernel: Any,
    inputs: Any,
    log_likelihood: Callable[..., Any],
    prior: Prior,
    *,
    share: float = 0.1,
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
    share : float
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
    if not 0 < share < 1:
        raise ValueError(f"share must lie in (0, 1), but it is {share}.")
    for name, value in (("increment", increment), ("rounds", rounds)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise ValueError(f"{name} must be a whole number, at least 1, but it is {value!r}.")
    seed = secrets.randbits(32) if seed is None else seed
    posterior = Posterior(prior, log_likelihood)
    with jax_settings(), blas_beside(CORES):  # many small products, which more threads would only slow down
        controls = ControlInputs(kernel, inputs, generator(seed, 0), increment)
        controls.grow_until(share)
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
    return TunedControls(adaptation.move, initial, adaptation.acceptance, controls.left, number)


class _Adaptation:
    """A chain of sweeps whose control inputs change between rounds."""

    move: ControlVariables
    state: State
    acceptance: np.ndarray

    def __init__(self, kernel: Any, inputs: Any, posterior: Posterior, engine: str | None, seed: int):
        self._kernel, self._inputs, self._prior, self._seed = kernel, inputs, posterior.prior, seed
        trial = np.asarray(self._prior.draw(generator(seed, 1), 1))[0]
        self._evaluate = choose_engine(posterior, engine, trial, EllipticalSlice())[0].evaluate

    def use(self, controls: ControlInputs) -> None:
        """Take new control inputs; the state is carried over."""
        self.move = ControlVariables(self._kernel, self._inputs, controls.points)
        prepared = self.move.prepare(self._prior)
        self._target: Target = HostTarget(self._evaluate, prepared)
        self._lots = self.move.lots(self._prior, prepared)
        if not hasattr(self, "state"):
            self.state = self._start(prepared.spread)

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
        source, draws, parts = self._lots
        noise = draw_block(source, self._seed, 0, 1 + number, BURN_IN + COUNTED, parts, draws)
        accepted = np.zeros(parts)
        for sweep in range(BURN_IN + COUNTED):
            own = Noise(noise.nu[sweep], noise.level[sweep].tolist(), noise.uniforms[sweep])
            self.state, _, moved = self.move.sweep(own, self.state, self._target)
            accepted += moved if sweep >= BURN_IN else 0
        self.acceptance = accepted / COUNTED
        return bool(self.acceptance.min() > ACCEPTED / parts)


def _warn_of_controls(controls: ControlInputs, passed: int, rounds: int) -> None:
    if passed == 2:
        return
    why = "there are no more inputs to add" if controls.exhausted else f"{rounds} rounds were not enough"
    warn(
        f"some of the {len(controls.points)} control variables hardly ever move, and {why}. Control variables are for "
        "functions that few inputs determine; use EllipticalSlice."
    )


# --- Hamiltonian Monte Carlo ----------------------------------------------------------------------------------------


class TunedHamiltonian(NamedTuple):
    """What the warm-up found."""

    move: Hamiltonian
    """The one to use."""
    initial: Any
    """Where the warm-up ended: a start for `sample`."""


def tune_hamiltonian(
    log_likelihood: Callable[..., Any],
    prior: Prior,
    *,
    steps: int | None = None,
    updates: int = 1_000,
    acceptance: float = 0.8,
    seed: int = 0,
) -> TunedHamiltonian:
    """Step and mass matrix for `moves.Hamiltonian`, by the warm-up of Stan as BlackJAX has it (`window_adaptation`).

    Parameters
    ----------
    log_likelihood, prior
        As for `sample`; the log-likelihood must be written with `jax.numpy`.
    steps : int, optional
        As for `moves.Hamiltonian`: NUTS unless given.
    updates : int
        How many it takes.
    acceptance : float
        The share of proposals to be accepted, in (0, 1).
    seed : int

    Examples
    --------
    >>> import jax.numpy as jnp, numpy as np
    >>> import ellipslice as es
    >>> prior, log_likelihood = es.Diagonal(np.ones(3)), lambda f: -50 * jnp.sum((f - 1) ** 2)
    >>> tuned = es.tune_hamiltonian(log_likelihood, prior, steps=4, seed=1)
    >>> tree = es.sample(log_likelihood, prior, move=tuned.move, initial=tuned.initial, draws=100, seed=1)
    """
    if not 0 < acceptance < 1:
        raise ValueError(f"acceptance must lie in (0, 1), but it is {acceptance}.")
    if isinstance(updates, bool) or not isinstance(updates, int | np.integer) or updates < 20:
        raise ValueError(f"updates must be a whole number, at least 20, but it is {updates!r}.")
    Hamiltonian(0.1, steps).prepare(prior)  # says what is missing, BlackJAX among it
    import blackjax

    posterior = Posterior(prior, log_likelihood)
    with jax_settings():
        value = compilable(posterior.log_likelihood, prior.size)
        algorithm = blackjax.nuts if steps is None else blackjax.hmc
        extra: dict[str, Any] = {} if steps is None else {"num_integration_steps": steps}

        def log_density(z: Any) -> Any:
            return value(prior.color(z)) - 0.5 * jnp.sum(z * z)

        adapt = blackjax.window_adaptation(algorithm, log_density, target_acceptance_rate=acceptance, **extra)
        start = generator(seed, 0).standard_normal(prior.noise_size)
        (state, found), _ = jax.jit(adapt.run, static_argnums=2)(jax.random.key(seed), start, int(updates))
        move = Hamiltonian(float(found["step_size"]), steps, variances=found["inverse_mass_matrix"].tolist())
        latents = posterior.log_likelihood.unpack(np.asarray(prior.color(state.position)))
    return TunedHamiltonian(move, latents["f"] if posterior.log_likelihood.single else latents)

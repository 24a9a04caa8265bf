"""The four methods of the paper, with the settings of the authors' scripts, and two extra methods.

The scripts settle what the text of the paper leaves open:

- On R01 to R10 all runs and methods start from the same prior draw. On USPS and Mine each run starts from its own prior
  draw. Control variables start where their adaptation ended.
- The step size of Neal's method is 0.05 on R01 to R10, 0.04 on USPS and 0.10 on Mine. (The scripts also contain a grid
  search, but its grid does not contain these values.)
- One iteration of control variables updates one of them. So one update of `ControlVariables`, a sweep over all M,
  counts as M iterations, and the trace has one point per sweep. Every run searches its own control inputs, and its
  time includes the search.
- The scripts add 1e-9 to the diagonal of every covariance. Here it is added for `LineSlice` and `NealMetropolis`. It
  matters for `LineSlice`: with a nearly singular covariance it makes the slice along a line narrower, most of all on
  Mine. `EllipticalSlice` and `ControlVariables` use the covariance without it, which makes draws cheaper: the former
  never divides by it, and the latter adds its own small number.

`recentred` is elliptical slice sampling around a reference Gaussian, `sample(reference="auto")`. `nuts` is BlackJAX's
NUTS in whitened coordinates, with step size and mass matrix from Stan's warm-up. Both are fitted once per problem. All
runs use the result, and the time of the first call includes the fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ellipslice import Dense, tune_controls, tune_hamiltonian
from ellipslice.approximations import fit_reference
from ellipslice.apps.paper.problems import PROBLEMS, Problem, problem
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.moves import EllipticalSlice, LineSlice, Move, NealMetropolis, ReferenceSlice
from ellipslice.posterior import Posterior
from ellipslice.sampling.initial_states import prior_starts

METHODS = ("elliptical", "line", "neal", "control")
EXTRA_METHODS = ("recentred", "nuts")
"""Methods that are not in the paper."""

JITTER = 1e-9
"""Number that the authors add to the diagonal of the covariance."""


class MethodSetup(NamedTuple):
    """Prior, move and initial state of the chains of a method."""

    prior: Dense
    move: Move
    initial: Any
    """Initial state; None for a prior draw per chain."""
    sweep: int = 1
    """Number of iterations that one update counts as."""


def set_up(name: str, method: str, *, start: int, seed: int) -> MethodSetup:
    """Return the setup of a method on a problem.

    Parameters
    ----------
    name, method : str
        A name from `PROBLEMS`, and one from `METHODS` or `EXTRA_METHODS`.
    start : int
        Seed for what all runs share: the initial prior draw on synthetic data, and the tuning of the extra methods.
    seed : int
        Seed of the search for control inputs, which each run repeats.
    """
    if method == "control":
        return with_controls(problem(name), seed)
    initial = None if name in ("USPS", "Mine") else shared_start(name, start)
    if method in EXTRA_METHODS:
        return MethodSetup(prior(name, 0.0), (nuts if method == "nuts" else recentred)(name, start), initial)
    moves = {"elliptical": EllipticalSlice(), "line": LineSlice(), "neal": NealMetropolis(neal_step(name))}
    return MethodSetup(prior(name, 0.0 if method == "elliptical" else JITTER), moves[method], initial)


def with_controls(one: Problem, seed: int) -> MethodSetup:
    """Return the setup of control variables, with control inputs from a search like the authors'.

    Their number grows until 10 % of the prior variance remains and all control variables mix.
    """
    bare = prior(one.name, 0.0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "some of the")  # in many dimensions they mix slowly, as the paper reports
        tuned = tune_controls(one.kernel, one.inputs, one.likelihood, bare, seed=seed)
    return MethodSetup(bare, tuned.move, tuned.initial, len(tuned.move.controls))


@cache
def recentred(name: str, seed: int) -> Move:
    """Return the move around a reference Gaussian that is fitted to the posterior."""
    return fit_ellipses(problem(name).likelihood, prior(name, 0.0), seed)[1]


def fit_ellipses(
    log_likelihood: Callable[[Any], Any], prior: Dense, seed: int
) -> tuple[CompiledEngine, ReferenceSlice]:
    """Return ellipses of the reference Gaussian that `reference="auto"` fits, and the engine that was used for it."""
    engine = CompiledEngine(Posterior(prior, log_likelihood))
    fitted = fit_reference("auto", engine, lambda count: prior_starts(engine, seed, range(count)), seed)
    return engine, ReferenceSlice(fitted.reference)


@cache
def nuts(name: str, seed: int) -> Move:
    """Return NUTS, tuned on a problem."""
    return tune_hamiltonian(problem(name).likelihood, prior(name, 0.0), seed=seed).move


def neal_step(name: str) -> float:
    """Return the authors' step size of Neal's method."""
    return {"USPS": 0.04, "Mine": 0.10}.get(name, 0.05)


def shared_start(name: str, seed: int) -> np.ndarray:
    """Return the prior draw from which all runs on a synthetic problem start."""
    return prior(name, 0.0).simulate(np.random.default_rng([seed, PROBLEMS.index(name)]))


@cache
def prior(name: str, jitter: float) -> Dense:
    """Return the prior of a problem, with `jitter` added to the diagonal of its covariance. It is factorised once."""
    covariance = problem(name).covariance
    return Dense(covariance + jitter * np.eye(len(covariance)))

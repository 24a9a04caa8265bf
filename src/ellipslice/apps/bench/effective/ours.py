"""The methods of this library."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ellipslice import Dense, sample
from ellipslice.apps.bench.effective.measure import CHAINS, WARMUP, Drawn
from ellipslice.apps.bench.effective.problems import LatentProblem
from ellipslice.apps.paper.methods import fit_ellipses
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import EllipticalSlice, Move, ReferenceSlice, SplitHamiltonian
from ellipslice.sampling.initial_states import reference_starts
from ellipslice.sampling.kick_pilot import KickPilot

COMPILING_DRAWS = 20
"""Draws of the first run, which compiles and is not timed."""

SHORT_SHARE = 10
"""The short run has this fraction of the draws of the long one. Their difference is the time of sampling."""


class Ours:
    """`es.sample` with some options. Each call prepares again, so that the preparation can be measured."""

    def __init__(self, given: LatentProblem, seed: int, **options: Any):
        self.preparation: float | None = None
        self.details: dict[str, Any] = {}
        self._log_likelihood, self._prior = given.log_likelihood, options.pop("prior", None) or Dense(given.covariance)
        self._options = {"warmup": WARMUP, "chains": CHAINS, "seed": seed, "progress": False, **options}
        self._run(COMPILING_DRAWS, 1)

    def draw(self, draws: int, thin: int) -> Drawn:
        """Make a short and a long run with the same seed, and return the draws of the long one."""
        short = max(1, draws // SHORT_SHARE)
        _, before = self._run(short, thin)
        f, whole = self._run(draws, thin)
        sampling = max((whole - before) / (1 - short / draws), 1e-6)
        self.preparation = whole - sampling
        return Drawn(f, sampling)

    def _run(self, draws: int, thin: int) -> tuple[np.ndarray, float]:
        began = time.process_time()
        tree = sample(self._log_likelihood, self._prior, draws=draws, thin=thin, **self._options)
        seconds = time.process_time() - began
        if "reference" in tree.attrs:
            self.details = {"chosen": kind(tree.attrs["move"]), "reason": tree.attrs["move_reason"]}
        return tree.posterior.f.values, seconds


def kind(move: str) -> str:
    """Return the kind of move around a reference, from the attribute `move` of a result."""
    if move.startswith("SplitHamiltonian("):
        return "kicks"
    return "independent" if "independence=True" in move else "ellipses"


class Alone(Ours):
    """One move with a reference that was fitted before. The time of that fit, with its compilation, is not measured."""

    def draw(self, draws: int, thin: int) -> Drawn:
        drawn = super().draw(draws, thin)
        self.preparation = None
        return drawn


def plain(given: LatentProblem, seed: int) -> Ours:
    """Return the algorithm of the paper."""
    return Ours(given, seed, move=EllipticalSlice())


def ellipses(given: LatentProblem, seed: int) -> Ours:
    """Return ellipses of a reference Gaussian, or independent draws from a very good one, but no kicks."""
    try:
        return Ours(given, seed, reference="ep")
    except ValueError:  # the log-likelihood does not factorise over the elements of f
        return Ours(given, seed, reference="pilot")


def auto(given: LatentProblem, seed: int) -> Ours:
    """Return a reference Gaussian with the move that `sample` chooses."""
    return Ours(given, seed, reference="auto")


def only_independent(given: LatentProblem, seed: int) -> Ours:
    """Return independent draws from the reference."""
    return _only("independent", given, seed)


def only_ellipses(given: LatentProblem, seed: int) -> Ours:
    """Return ellipses of the reference."""
    return _only("ellipses", given, seed)


def only_kicks(given: LatentProblem, seed: int) -> Ours:
    """Return rotations around the reference with a tuned number of kicks."""
    return _only("kicks", given, seed)


def _only(kind: str, given: LatentProblem, seed: int) -> Ours:
    """Return one kind of move around the reference that `reference="auto"` fits. Chains start at draws from it."""
    prior = Dense(given.covariance)
    with jax_settings():
        engine, around = fit_ellipses(given.log_likelihood, prior, seed)
        move: Move = around
        fitted = around.reference
        relative = fitted.relative_to(prior)
        if kind == "independent":
            move = ReferenceSlice(fitted, independence=True)
        if kind == "kicks":
            chains = reference_starts(engine, relative, seed, range(CHAINS))
            pilot = KickPilot(fitted, SplitHamiltonian(fitted).prepare(prior), engine, chains, seed)
            move = SplitHamiltonian(fitted, pilot.tune().kicks)
    starts = np.asarray(relative.centre) + relative.draw(np.random.default_rng(seed), CHAINS)
    only = Alone(given, seed, prior=prior, move=move, initial=starts)
    only.details = {"kicks": move.kicks} if isinstance(move, SplitHamiltonian) else {}
    return only

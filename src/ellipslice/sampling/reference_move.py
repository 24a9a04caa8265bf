"""The move of a run with `reference=`: fit a reference Gaussian to the posterior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ellipslice.approximations import fit_reference
from ellipslice.approximations.fit import FactorisedLikelihood
from ellipslice.engines.base import Engine, RunSpec
from ellipslice.engines.choose import choose_engine, with_workers
from ellipslice.engines.workers.pool import Workers
from ellipslice.moves import Cycle, EllipticalSlice, Move, SplitHamiltonian
from ellipslice.moves.reference_slice import RelativeReference
from ellipslice.noise import start_generator
from ellipslice.posterior import Posterior
from ellipslice.sampling.choose_reference_move import choose_reference_move
from ellipslice.sampling.initial_states import first_draw, prior_starts
from ellipslice.sampling.likelihood_checks import check_concave
from ellipslice.truncated_posterior import TruncatedPosterior


class ReferenceMove(NamedTuple):
    """The move of a run that `sample` has chosen: around a reference, or without one."""

    move: Move
    prepared: Any
    """Result of the move's `prepare`."""
    around: RelativeReference | None
    """The reference relative to the prior; None if there is no reference."""
    method: str | None
    """Method of the fit: "laplace", "ep", "pilot" or "given"; None if there is no reference."""
    reason: str
    """The kind of move and why it was chosen, in one sentence."""
    starts: tuple[np.ndarray, ...] = ()
    """States that a pilot run has reached, centred and flat. Chains begin there, if there are any."""

    def points(self, chains: Sequence[int]) -> list[np.ndarray] | None:
        """Return a state of the pilot run for each chain; None if there are none."""
        return [self.starts[chain % len(self.starts)] for chain in chains] if self.starts else None

    @classmethod
    def plain(cls, move: Move, reason: str, prepared: Any = None) -> ReferenceMove:
        """Return a move without a reference."""
        return cls(move, prepared, None, None, reason)


def check_reference(spec: RunSpec, posterior: Posterior, engine: str | None, move: Move | None) -> None:
    """Raise if a run cannot use a reference, before it is fitted."""
    if spec.look_ahead is not None and spec.look_ahead > 1:
        raise ValueError(
            f"look_ahead={spec.look_ahead} was given with reference=, whose move is not a single search. Leave one of "
            "them out."
        )
    if move is not None:
        raise ValueError(f"move={move!r} was given with reference=, which uses its own move. Leave one of them out.")
    if isinstance(posterior, TruncatedPosterior):
        raise ValueError(
            "reference= was given with a TruncatedGaussian, but it requires a prior without constraints. Leave "
            "reference out."
        )
    if engine == "fused":
        raise ValueError(
            'engine="fused" was given with reference=, but the fused kernel runs only moves that are a single search '
            'on a draw from the prior. Use engine="batched", or leave engine out.'
        )


def pilot_seed(seed: int) -> int:
    """Return the seed of fits and pilot runs, which must not use the random numbers of the chains."""
    return int(np.random.SeedSequence(seed).spawn(1)[0].generate_state(1)[0])


def fit_reference_move(
    reference: Any, posterior: Posterior, spec: RunSpec, engine: str | None, workers: Workers | None, log_concave: bool
) -> ReferenceMove:
    """Fit a reference on the CPU, and choose the move around it."""
    own_seed = pilot_seed(spec.seed)
    trial = first_draw(posterior, start_generator(own_seed, 0))
    if engine == "batched" or spec.precision != "double":
        # Raise before the fit if the device cannot run the chains.
        choose_engine(posterior, engine, trial, SplitHamiltonian(None), spec.precision == "double", workers)
        engine = "compiled"
    not_on_gpu = Cycle(EllipticalSlice())  # device engines cannot run a Cycle, so they are not chosen
    chosen, _ = choose_engine(posterior, engine, trial, not_on_gpu, workers=workers)
    return fit_with_engine(reference, chosen, workers, trial, own_seed, log_concave)


def fit_with_engine(
    reference: Any,
    chosen: Engine,
    workers: Workers | None,
    trial: np.ndarray,
    own_seed: int,
    log_concave: bool,
    terms: FactorisedLikelihood | str | None = None,
) -> ReferenceMove:
    """Fit a reference with an engine of the CPU, and choose the move around it.

    `trial` is a point at which workers time the log-likelihood, `own_seed` the result of `pilot_seed`, and `terms` that
    of `factorise_likelihood`, if it is known.
    """
    if log_concave:
        check_concave(chosen)
    runner = with_workers(chosen, workers, trial)
    fitted = fit_reference(
        reference, runner, lambda count: prior_starts(runner, own_seed, range(count)), own_seed, terms
    )
    relative = fitted.reference.relative_to(chosen.posterior.prior)
    automatic = isinstance(reference, str) and reference == "auto"
    why_no_kicks = None if automatic else 'reference is not "auto"'
    pilot_engine = chosen if chosen.traced else runner  # compiled pilot runs are short, and need no workers
    best = choose_reference_move(fitted.reference, relative, pilot_engine, own_seed, why_no_kicks)
    return ReferenceMove(best.move, best.prepared, relative, fitted.method, best.reason)

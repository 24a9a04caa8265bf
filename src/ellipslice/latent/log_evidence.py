"""The log marginal likelihood of a latent Gaussian model, with hyperparameters integrated out.

The proposal is a product of t distributions of the hyperparameters u, times N(0, I) for the white noise z of the frozen
reference. In these coordinates the joint density of u, z and the responses is known with all constants, if every prior
is proper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ellipslice.bridge.proposal import Proposal
from ellipslice.bridge.result import LogEvidence, draws_per_chain, log_evidence_of
from ellipslice.engines.threads import limit_blas_threads
from ellipslice.latent.definition import Definition
from ellipslice.latent.joint import LatentPrior, Point, PointLikelihood
from ellipslice.latent.pilot import Pilot
from ellipslice.latent.posterior import LatentPosterior, WhitePosterior
from ellipslice.latent.terms.columns import listed
from ellipslice.latent.update import LatentUpdate
from ellipslice.machine import available_cores
from ellipslice.sampling import sample

if TYPE_CHECKING:
    from ellipslice.latent.fit import LatentFit

WARMUP = 50
"""Updates at the start of each chain that are not used."""


def log_evidence(fit: LatentFit, draws: int, seed: int) -> LogEvidence:
    """Return the log marginal likelihood; see `LatentFit.log_evidence`."""
    posterior = fit.model.definition.posterior
    require_proper_terms(fit.model.definition)
    seeds = np.random.SeedSequence([int(fit.tree.attrs.get("seed", 0)), seed]).generate_state(2).tolist()
    return bridge_from_move(
        posterior, fit.move, _hyperparameters(fit), fit.tree["posterior"].sizes["chain"], draws, seeds
    )


def bridge_from_move(
    posterior: LatentPosterior, move: LatentUpdate, u: np.ndarray, chains: int, draws: int, seeds: Sequence[int]
) -> LogEvidence:
    """Return the log marginal likelihood by bridge sampling between new draws of a move and a proposal.

    Parameters
    ----------
    posterior : LatentPosterior
        All its priors must be proper.
    move : LatentUpdate
        Move with a frozen reference, as a pilot run returns it.
    u : array, shape (count, size)
        Posterior draws of the unconstrained hyperparameters, to which the proposal is fitted.
    chains, draws : int
        Number of new chains, and of new draws in all.
    seeds : sequence of int
        Seeds of the new draws and of the proposal.
    """
    white = move.white
    with limit_blas_threads(available_cores()):
        proposal = Proposal.fitted(posterior.hyperparameters.parameters, u)
        drawn = _new_draws(posterior, move, chains, draws, seeds[0])
        points = Point.split(drawn.reshape(-1, drawn.shape[-1]), posterior.hyperparameters.size)
        at_posterior = _log_ratios(white, points.u, points.z) - proposal.log_density(points.u)
        rng = np.random.default_rng(seeds[1])
        u, z = proposal.draw(rng, len(points.u)), rng.standard_normal(points.z.shape)
        at_proposal = _log_ratios(white, u, z) - proposal.log_density(u)
        return log_evidence_of(at_posterior.reshape(len(drawn), -1), at_proposal)


def _log_ratios(white: WhitePosterior, u: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the log joint density of u, z and the responses, less log N(z; 0, I), for several points."""
    points = [white.point(*pair) for pair in zip(u, z, strict=True)]
    return np.array([-np.inf if point is None else point.log_ratio for point in points])


def require_proper_terms(definition: Definition) -> None:
    """Raise ValueError if a prior is flat in some direction. The message names all of these."""
    flat = {term.name: listed(term.state.structure.improper) for term in definition.predictor.terms}
    found = [f"{name} ({directions})" for name, directions in flat.items() if directions]
    if found:
        raise ValueError(
            f"the model has no marginal likelihood, because a prior is flat in: {listed(found)}. A density that does "
            "not integrate to 1 leaves log Z undetermined. Give fixed effects a proper prior (fixed_sd=2.5, or the "
            "default), and remove the flat directions of other terms with their argument constraint: for example, "
            "rw2(age, constraint='trend', name='curve') + age."
        )


def _hyperparameters(fit: LatentFit) -> np.ndarray:
    """Return the unconstrained hyperparameters of all draws, shape (draws, size)."""
    parameters, draws = fit.model.definition.posterior.hyperparameters.parameters, fit.tree["posterior"]
    if not parameters.size:
        return np.zeros((1, 0))
    u = parameters.unconstrain({name: draws[name].values for name in parameters.priors})
    return u.reshape(-1, parameters.size)


def _new_draws(posterior: LatentPosterior, move: LatentUpdate, chains: int, draws: int, seed: int) -> np.ndarray:
    """Return flat points of new chains, shape (chains, draws, size).

    The result of a fit does not contain white noise, and effects do not determine the latents of every term.
    """
    tree = sample(
        PointLikelihood(posterior), LatentPrior(posterior, ""), move=move,
        initial=Pilot(move).starts(seed, tuple(range(chains))), engine="host", draws=draws_per_chain(draws, chains),
        warmup=WARMUP, chains=chains, seed=seed, progress=False,
    )  # fmt: skip
    return tree.posterior.f.values

"""Exact draws of the joint distribution of hyperparameters, latents and responses, before and after updates.

Hyperparameters and latents are drawn from their prior, and responses given them. This is an exact draw of the posterior
given the responses, and stays one after any number of correct updates.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import numpyro.distributions as dist
from scipy import stats

from ellipslice.engines.host.engine import HostTarget
from ellipslice.latent.joint import Point, PointLikelihood
from ellipslice.latent.posterior import LatentPosterior, Sites, WhitePosterior
from ellipslice.latent.scales import Scales
from ellipslice.latent.student import StudentT
from ellipslice.latent.terms import IID, RW1, Fixed
from ellipslice.latent.update import LatentUpdate, UpdateSettings
from ellipslice.moves import State
from ellipslice.noise import block_length, draw_block
from latent_models import DATA, model

SD = dist.LogNormal(-0.3, 0.8)
JOINT = model(
    "negative_binomial",
    [Fixed("1", sd=0.7), RW1("t", prior=SD, values=range(7)), IID("g", prior=SD)],
    priors={"dispersion": dist.LogNormal(1.0, 0.5)},
)
"""A model with a constraint, two standard deviations and a parameter of the family."""

CENTRE, SPREAD = np.array([-0.3, -0.3, 1.0]), np.array([0.8, 0.8, 0.5])
"""Prior mean and standard deviation of the unconstrained hyperparameters."""

P_LIMIT = 1e-5


class Replicates(NamedTuple):
    """Quantities before and after some updates, shape (replicates, quantities) each."""

    before: np.ndarray
    after: np.ndarray

    def p_values(self) -> dict[str, float]:
        """Return p-values of the distributions after the updates, and of the paired differences."""
        found = {}
        for name, after, before in zip(QUANTITIES, self.after.T, self.before.T, strict=True):
            found[f"{name}, standard normal"] = float(stats.kstest(after, "norm").pvalue) if name in NORMAL else 1.0
            change = after - before
            found[f"{name}, unchanged"] = float(stats.ttest_1samp(change, 0.0).pvalue) if change.any() else 1.0
        return found


NORMAL = ("u[0]", "u[1]", "u[2]", "level", "first group")
QUANTITIES = (*NORMAL, "u[0] u[1]", "spread of t", "u[0] and y", "u[1] and y", "u[2] and y", "log-likelihood")


def quantities(u: np.ndarray, x: np.ndarray, y: np.ndarray, log_likelihood: float) -> np.ndarray:
    """Return functions of a draw of the joint distribution."""
    white = (u - CENTRE) / SPREAD
    level, t, g = x[0] / 0.7, x[1:8] * np.exp(-u[0]), x[8:] * np.exp(-u[1])
    logs = np.log1p(y)
    groups = np.array([logs[DATA["g"] == each].mean() for each in "pqrs"])
    times = np.array([logs[DATA["t"] == each].mean() if (DATA["t"] == each).any() else 0.0 for each in range(7)])
    spreads = [times.std(), groups.std(), np.log1p(y.std())]
    return np.array([*white, level, g[0], white[0] * white[1], t.std(), *(white * spreads), log_likelihood])


def with_responses(posterior: LatentPosterior, y: np.ndarray) -> LatentPosterior:
    """Return the posterior for other responses."""
    other, make = copy.copy(posterior), posterior._make_likelihood
    other._make_likelihood = type(make)(make.family, y)  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
    return other


def constant_sites(at: Any) -> Sites:
    """Return sites that do not depend on responses or hyperparameters."""
    rows = np.arange(24)
    return Sites(0.4 + 0.05 * rows, 0.3 * np.sin(rows))


def white_noise(white: WhitePosterior, u: np.ndarray, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a draw of the white noise z given the latents x, which fix all but the part of z outside {C x = 0}."""
    around = white.around(u)
    assert around is not None
    reference, C = around.reference, white.posterior.assembly.constraints
    away = x - reference.mean
    if reference._gain is not None:
        free = reference._factor.unwhiten(rng.standard_normal(len(x)))
        away = away + reference._gain @ (C @ free)
    return reference._factor.whiten(away)


FACTOR = np.array([[0.5, 0, 0], [0.2, 0.7, 0], [0, -0.1, 0.6]])
PRIORS = list(JOINT.definition.posterior.hyperparameters.parameters.priors.values())
STUDENTS = tuple(
    StudentT(scales, scales.coordinates(CENTRE + 0.3), FACTOR)
    for scales in (Scales.of(PRIORS, own) for own in (False, True))
)
SETTINGS = UpdateSettings(STUDENTS, FACTOR, kicks=2)
"""Settings that do not fit the posterior."""


def replicates(
    count: int, updates: int, seed: int, sites: Any = constant_sites, move: Any = LatentUpdate
) -> Replicates:
    """Return quantities of exact draws, before and after updates of a move."""
    definition = JOINT.definition
    rng = np.random.default_rng(seed)
    terms, family = definition.predictor.terms, definition.family
    all_u = definition.posterior.hyperparameters.parameters.draw(rng, count)
    before, after = [], []
    for number, u in enumerate(all_u):
        values = definition.posterior.hyperparameters.at(u)
        x = np.concatenate([term.simulate(rng, **own) for term, own in zip(terms, values.of_terms, strict=True)])
        y = family.simulate(definition.posterior.assembly.predictor(x), rng, **values.of_family)
        posterior = with_responses(definition.posterior, y)
        white, likelihood = WhitePosterior(posterior, sites), PointLikelihood(posterior)
        own: LatentUpdate = move(white, SETTINGS)
        flat = Point(u, white_noise(white, u, x, rng), x).flat
        state = State(flat, likelihood(flat))
        before.append(quantities(u, x, y, state.log_likelihood))
        spec = own.noise_spec(None, None)  # pyright: ignore[reportArgumentType]
        noise = draw_block(spec, seed, number, 0, min(updates, block_length(spec.numbers)))
        for update in range(updates):
            state, _ = own.step(noise.at(update), state, HostTarget(likelihood))
        u, _, x = Point.split(state.f, len(u))
        after.append(quantities(u, x, y, state.log_likelihood))
    return Replicates(np.array(before), np.array(after))

"""Finds a Gaussian near the posterior, by the way the user names or by what the likelihood is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.approximations.expectation_propagation import propagate
from ellipslice.approximations.gaussian import WhiteGaussian
from ellipslice.approximations.laplace import laplace
from ellipslice.approximations.pilot import CHAINS, pilot
from ellipslice.approximations.sites import Sites, SitesReference, as_rows
from ellipslice.engines.base import Engine
from ellipslice.jax_settings import on_cpu
from ellipslice.moves import State
from ellipslice.moves.reference_slice import Reference, RelativeReference
from ellipslice.posterior import Posterior, PredictorLikelihood
from ellipslice.priors import Dense, Prior
from ellipslice.priors.parts.augmented import PredictorPrior
from ellipslice.programs.site_program import CPU, Elementwise
from ellipslice.programs.site_sums import NotFactorised, elementwise
from ellipslice.programs.traced import compilable

TRIED = 100
"""Draws of a reference that show how good it is."""

WAYS = ("auto", "laplace", "ep", "pilot")


class Fitted(NamedTuple):
    """A reference, and how it was found."""

    reference: Reference
    how: str


@np.errstate(over="ignore", under="ignore")  # a weight that underflows is 0, and a ratio above 1 counts as 1
def accepted(relative: RelativeReference, engine: Engine, seed: int) -> float:
    """Of a reference's draws by themselves, how many a chain in equilibrium would accept, about.

    Metropolis and Hastings accept one with probability min(1, w' / w), w being posterior over reference, and the chain
    is where draws with weights w are.
    """
    x = relative.draw(np.random.default_rng(seed), TRIED)
    values = np.array(engine.evaluate_all(list(x + relative.centre)))
    log_w = np.array(
        [value - relative.log_ratio_on_ellipse(one, 0 * one)(1.0, 0.0) for value, one in zip(values, x, strict=True)]
    )
    log_w = np.where(np.isnan(log_w), -np.inf, log_w)
    if not np.isfinite(log_w).any():
        return 0.0
    w = np.exp(log_w - log_w.max())
    ratio = np.minimum(1.0, w / np.where(w > 0, w, 1.0)[:, None])
    return float(w @ ratio.mean(axis=1) / w.sum())


def fit_reference(way: Any, engine: Engine, starts: Callable[[int], list[State]], seed: int) -> Fitted:
    """A Gaussian near the posterior.

    Parameters
    ----------
    way : one of `WAYS`, or a prior that is the Gaussian itself
    engine : Engine
        That will run the chains, as far as it is known.
    starts : callable
        A number of chains to their first states, for a pilot run.
    seed : int
    """
    posterior = engine.posterior
    prior = posterior.prior
    if not isinstance(way, Prior) and way not in WAYS:
        names = ", ".join(f'"{name}"' for name in WAYS)
        raise ValueError(f"reference must be one of {names}, or a Gaussian such as Dense(covariance), not {way!r}.")
    with on_cpu():
        rows = as_rows(prior, "reference=" + ("a Gaussian" if isinstance(way, Prior) else f'"{way}"'))
        if isinstance(way, Prior):
            return Fitted(_given(way, prior, rows), "given")
        terms = read_terms(posterior) if engine.traced else "it cannot be traced by JAX"
        if isinstance(terms, str) and way in ("laplace", "ep"):
            raise ValueError(
                f'reference="{way}" needs a log-likelihood that is a sum over the values of f, but {terms}. Use '
                '"pilot", which works for any.'
            )
        if isinstance(terms, str) or way == "pilot":
            return Fitted(pilot(engine, rows, starts(CHAINS), seed), "pilot")
        found = laplace(rows[:, terms.where], terms.log_likelihood)
        if way != "laplace":
            found = propagate(rows[:, terms.where], terms.of_each, found)
        return Fitted(terms.among(found, prior.size), "laplace" if way == "laplace" else "ep")


def _given(gaussian: Prior, prior: Prior, rows: np.ndarray) -> WhiteGaussian:
    """A Gaussian of the user's, in the coordinates where the prior is white."""
    if gaussian.layout != prior.layout:
        raise ValueError(f"reference has the latents {gaussian.layout}, but the prior has {prior.layout}.")
    white, shift = Dense(factor=rows.T), np.zeros(gaussian.size)
    base = prior.base if isinstance(prior, PredictorPrior) else prior
    for sign, mean in ((1.0, gaussian.mean), (-1.0, base.mean)):
        shift = shift if mean is None else shift + sign * np.asarray(mean)
    instead = 'Say reference="auto", which fits one'
    points = np.vstack([shift, as_rows(gaussian, "reference", instead)])
    points = np.asarray(prior.augment(points)) if isinstance(prior, PredictorPrior) else points
    z = np.asarray(white.whiten(points))
    off = float(np.abs(z @ white.rows - points).max())
    if off > 1e-6 * float(np.abs(points).max()):
        raise ValueError(
            f"reference has draws that the prior does not: they are off by up to {off:.3g}. It must be a Gaussian on "
            f"the prior's span, whose dimension is {white.noise_size} for {prior.size} values."
        )
    covariance = z[1:].T @ z[1:]
    if np.linalg.matrix_rank(covariance) < len(covariance):
        raise ValueError("reference has no variance in some direction where the prior has. Widen it.")
    return WhiteGaussian(z[0], covariance)


class Terms(NamedTuple):
    """A log-likelihood that is a sum over some of the values."""

    log_likelihood: Callable[[Any], Any]
    """Of these values."""
    of_each: Callable[[np.ndarray], np.ndarray]
    """Of each of them: (count, values) to the same shape."""
    where: slice

    def among(self, found: Sites, size: int) -> SitesReference:
        """Return the reference for all values: those that the likelihood does not depend on have no site."""
        linear, precision = np.zeros(size), np.zeros(size)
        linear[self.where], precision[self.where] = found.linear, found.precision
        return SitesReference(linear, precision)


def read_terms(posterior: Posterior) -> Terms | str:
    """The log-likelihood as a sum over values of f, or over those of A f for `LinearPredictor`; or why it is none."""
    centred, size = posterior.log_likelihood, posterior.prior.size
    where, function = slice(0, size), compilable(centred, size)
    batched = centred.batches_only  # looked at with a batch of one, of which no value is picked
    if isinstance(centred, PredictorLikelihood):
        where, inner = slice(centred.size, size), centred

        def function(values: Any) -> Any:
            predictor = values if inner.shift is None else values + inner.shift
            return inner.callable(predictor[None]).reshape(()) if batched else inner.callable(predictor)

    elif batched:

        def function(values: Any) -> Any:
            return centred.batch(values[None]).reshape(())

    try:
        read = elementwise(function, where.stop - where.start, np.float64, CPU, batched=batched)
    except NotFactorised as reason:
        return str(reason)

    # Not compiled: few operations, which JAX keeps from one likelihood to the next.
    return Terms(function, lambda values: np.asarray(of_each(read, values)), where)


def of_each(read: Elementwise, values: Any) -> Any:
    """The terms of a sum over values: (count, size) to the same shape."""

    def of_one(row: Any) -> tuple[Any, Any]:
        a, m = read.parts(row, read.data, read.scalars, CPU)
        return a, jnp.ones_like(row) if m is None else m

    a, m = jax.vmap(of_one)(values)
    return a - jnp.log(m)

"""The draws of a fit that cross-validation uses, and the reference Gaussian of the linear predictor of each.

Given the hyperparameters u, the reference is a Gaussian of the latents x, and so of the linear predictor of the
observed rows: e = eta - offset has mean m and covariance K under it. It is the product of the prior of x and the sites,
Gaussian factors exp(b e - w e^2 / 2) of each row, so that

    p(x | u) p(y | x, u) is proportional to reference(x | u) times the product over rows j of p(y_j | eta_j) / site_j.

A linear function g = F e of the linear predictor, with covariance S under the reference, divides the reference into two
independent parts: g, and x - cov(x, g) inv(S) g =: rest. If the rest stays as it is in a draw and g changes by s, the
linear predictor changes by K F' inv(S) s. So the conditional density of g given the rest, u and the responses is known,
up to a constant, for any likelihood, and so is that without some of the responses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ellipslice.latent.posterior import Sites, WhitePosterior
from ellipslice.latent.predict import linear_predictor
from ellipslice.likelihoods import Likelihood
from ellipslice.result_parts import thinned

if TYPE_CHECKING:
    import xarray

    from ellipslice.latent.definition import Definition


class RowDraw(NamedTuple):
    """A draw, as a linear predictor of the observed rows, with the reference for its hyperparameters."""

    likelihood: Likelihood
    offset: np.ndarray
    change: np.ndarray
    """e = eta - offset of the draw, shape (rows,)."""
    mean: np.ndarray
    """Mean m of e under the reference."""
    covariance: np.ndarray
    """Covariance K of e under the reference, shape (rows, rows)."""
    sites: Sites

    @property
    def eta(self) -> np.ndarray:
        """Linear predictor of the draw."""
        return self.change + self.offset

    @property
    def site_slopes(self) -> np.ndarray:
        """Derivatives of the logarithms of the sites at the draw."""
        return self.sites.linear - self.sites.precision * self.change


class UsedDraws(NamedTuple):
    """Some draws of a fit."""

    u: np.ndarray
    """Unconstrained hyperparameters, shape (draws, hyperparameters)."""
    eta: np.ndarray
    """Linear predictor of the observed rows, shape (draws, rows)."""
    chains: int

    @classmethod
    def of(cls, definition: Definition, tree: xarray.DataTree, draws: int | None) -> UsedDraws:
        """Return evenly spaced draws of a tree, of which `definition` defines the rows."""
        own = definition.posterior.hyperparameters
        posterior = tree["posterior"].to_dataset()
        posterior = posterior if draws is None else thinned(posterior, draws)
        count = posterior.sizes["chain"] * posterior.sizes["draw"]
        values = {name: posterior[name].values.reshape(count) for name in own.names}
        u = own.parameters.unconstrain(values) if own.names else np.zeros((count, 0))
        eta = linear_predictor(definition, tree, draws).values.reshape(count, -1)[:, definition.observed]
        return cls(u, eta, posterior.sizes["chain"])

    def with_references(self, white: WhitePosterior) -> Iterator[RowDraw]:
        """Yield each draw with its reference."""
        assembly = white.posterior.assembly
        for u, eta in zip(self.u, self.eta, strict=True):
            around = white.around(u)
            if around is None:
                raise ValueError(
                    "a draw has hyperparameters at which the reference Gaussian is not defined in double precision. "
                    "Use more informative priors of the hyperparameters."
                )
            at, reference = around
            yield RowDraw(
                at.likelihood, assembly.offset, eta - assembly.offset, assembly.A @ reference.mean,
                reference.covariance_of(assembly.A), Sites(reference.precision, reference.linear),
            )  # fmt: skip

"""The Laplace approximation that INLA and TMB use, compared with the exact posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse

from ellipslice.latent.definition import Definition
from ellipslice.latent.newton import find_mode, first_predictor
from ellipslice.latent.posterior import LatentPosterior
from ellipslice.latent.student import StudentT
from ellipslice.latent.summary import element_labels
from ellipslice.sampling.measures import TAILS
from ellipslice.sampling.rank_diagnostics import rank_diagnostics

if TYPE_CHECKING:
    from ellipslice.latent.fit import LatentFit

MOST_LEVELS = 60
"""Largest number of levels of a term that are compared, evenly spaced."""

SHOWN = 12
"""Number of effects that `repr` shows: those with the largest errors."""


class Approximation(NamedTuple):
    """Moments of the Laplace approximation of some quantities."""

    mean: np.ndarray
    sd: np.ndarray
    error: np.ndarray
    """Standard error of the mean."""
    effective_points: float


@dataclass(frozen=True, eq=False)
class LaplaceComparison:
    """Difference between a Laplace approximation and the exact posterior.

    Given the hyperparameters, the approximation of the latents is the Gaussian at their mode. The marginal posterior of
    the hyperparameters follows from it (Tierney & Kadane 1986; Rue, Martino & Chopin 2009), and is averaged over. This
    is INLA's strategy "gaussian". INLA's default corrects the marginals of the latents, but not of the hyperparameters.

    Attributes
    ----------
    table : pandas.DataFrame
        One row for each hyperparameter and effect (at most 60 levels of a term), with the columns

        - `exact_mean`, `exact_sd`, `laplace_mean`, `laplace_sd`
        - `error`: difference of the means in exact posterior standard deviations
        - `error_mcse`: its Monte Carlo error
        - `sd_ratio`: standard deviation of the approximation, relative to the exact one

        Hyperparameters are on their unconstrained scale: logarithms of standard deviations, logits of proportions.
    hyperparameters : list of str
        Rows of the table that are hyperparameters.
    effective_points : float
        Effective sample size of the values of the hyperparameters over which the approximation is averaged.
    """

    table: Any
    hyperparameters: list[str]
    effective_points: float

    def plot(self, axes: Any = None, most: int = 40) -> Any:
        """Plot the errors with 95 % intervals of their Monte Carlo error.

        Parameters
        ----------
        axes : matplotlib Axes, optional
            Axes of the plot. Default: a new figure.
        most : int
            Number of rows: all hyperparameters, then the effects with the largest errors. Default: 40.

        Returns
        -------
        matplotlib Axes
        """
        import matplotlib.pyplot as plt

        shown = self._largest(most - len(self.hyperparameters))
        axes = axes or plt.subplots(figsize=(8, 0.25 * len(shown) + 1.2), layout="constrained")[1]
        position = np.arange(len(shown))[::-1]
        axes.errorbar(shown.error, position, xerr=1.96 * shown.error_mcse, fmt="o", markersize=4)
        axes.axvline(0, color="0.6", linewidth=1)
        axes.set_yticks(position, list(shown.index))
        axes.set_xlabel("error of the Laplace mean, in posterior standard deviations")
        return axes

    def _largest(self, effects: int) -> Any:
        """Return the rows of the hyperparameters and of the effects with the largest errors."""
        rest = self.table.drop(index=self.hyperparameters)
        largest = rest.error.abs().sort_values(ascending=False).index[: max(0, effects)]
        return self.table.loc[[*self.hyperparameters, *largest]]

    def __repr__(self) -> str:
        effects = len(self.table) - len(self.hyperparameters)
        title = f"Laplace approximation against the exact posterior ({self.effective_points:.0f} effective points)"
        shown = f"The {min(SHOWN, effects)} effects with the largest errors, of {effects}:" if effects > SHOWN else ""
        rows = self._largest(SHOWN).drop(columns=["laplace_mean", "laplace_sd"])  # lines that fit on a page
        return "\n".join(part for part in (title, shown, rows.round(3).to_string()) if part)


def compare_with_laplace(fit: LatentFit, points: int) -> LaplaceComparison:
    """Return the comparison; see `LatentFit.compare_with_laplace`."""
    import pandas as pd

    own = fit.model.definition
    names, exact, matrix = _quantities(own, fit.tree["posterior"].to_dataset())
    laplace = approximate(own.posterior, fit.move.settings.student, matrix, points)
    mean, sd = exact.mean((0, 1)), exact.std((0, 1))
    table = pd.DataFrame(
        {
            "exact_mean": mean,
            "exact_sd": sd,
            "laplace_mean": laplace.mean,
            "laplace_sd": laplace.sd,
            "error": (laplace.mean - mean) / sd,
            "error_mcse": np.sqrt(1 / rank_diagnostics(exact, TAILS).bulk + (laplace.error / sd) ** 2),
            "sd_ratio": laplace.sd / sd,
        },
        index=names,
    )
    return LaplaceComparison(table, list(own.posterior.hyperparameters.names), laplace.effective_points)


def _quantities(own: Definition, posterior: Any) -> tuple[list[str], np.ndarray, Any]:
    """Return names, exact draws (chains, draws, quantities), and the matrix from latents to those that are effects."""
    hyperparameters = own.posterior.hyperparameters
    shape = (posterior.sizes["chain"], posterior.sizes["draw"])
    names, draws, rows = list(hyperparameters.names), [np.zeros((*shape, 0))], []
    if names:
        values = {name: posterior[name].values for name in names}
        draws.append(hyperparameters.parameters.unconstrain(values).reshape(*shape, -1))
    for term, span in zip(own.predictor.terms, own.posterior.assembly.spans, strict=True):
        effect: Any = scipy.sparse.csr_array(term.state.structure.effect)
        levels = np.unique(np.linspace(0, effect.shape[0] - 1, min(effect.shape[0], MOST_LEVELS)).astype(int))
        before = scipy.sparse.csr_array((len(levels), span.start))
        after = scipy.sparse.csr_array((len(levels), own.posterior.assembly.size - span.stop))
        rows.append(scipy.sparse.hstack([before, effect[levels], after]))
        draws.append(posterior[term.name].values.reshape(*shape, -1)[:, :, levels])
        labels = element_labels(posterior[term.name])
        names += [labels[level] for level in levels]
    return names, np.concatenate(draws, axis=2), scipy.sparse.csr_array(scipy.sparse.vstack(rows))


def approximate(posterior: LatentPosterior, student: StudentT, matrix: Any, points: int) -> Approximation:
    """Return moments of u and of matrix @ x in the Laplace approximation, by importance sampling of u.

    Parameters
    ----------
    posterior : LatentPosterior
    student : StudentT
        Proposal distribution of u.
    matrix : sparse array, shape (quantities, size)
    points : int
        Number of values of u.
    """
    rng = np.random.default_rng(0)
    count, offset = points if student.size else 1, posterior.assembly.offset
    middle = student.scales.unconstrained(student.centre)
    first = None if middle is None else posterior.at(middle)
    eta = offset if first is None else first_predictor(first.likelihood, offset)
    log_weights, means, variances = [], [], []
    for _ in range(count):
        u = student.draw(rng)
        at = None if u is None else posterior.at(u)
        with np.errstate(all="ignore"):
            mode = None if at is None else find_mode(posterior, at, eta)
        if u is None or mode is None:
            continue
        eta = mode.eta
        proposal = (
            student.log_density(student.scales.coordinates(u) - student.centre) + student.scales.log_slope(u).sum()
        )
        log_weights.append(mode.log_density - proposal)
        means.append(np.concatenate([u, matrix @ mode.reference.mean]))
        variances.append(np.concatenate([np.zeros(student.size), mode.reference.variances_of(matrix)]))
    weights = np.exp(np.array(log_weights) - max(log_weights))
    weights /= weights.sum()
    centre = weights @ np.stack(means)
    spread = (np.stack(means) - centre) ** 2
    sd = np.sqrt(weights @ (spread + np.stack(variances)))
    error = np.sqrt(weights**2 @ spread) if student.size else np.zeros(len(centre))
    return Approximation(centre, sd, error, float(1 / (weights**2).sum()))

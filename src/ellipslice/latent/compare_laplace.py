"""The Laplace approximation that INLA and TMB use, compared with the exact posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ellipslice.latent.newton import find_mode, first_predictor
from ellipslice.latent.posterior import LatentPosterior
from ellipslice.latent.student import StudentT

if TYPE_CHECKING:
    from ellipslice.latent.fit import LatentFit

LARGEST_WEIGHTED = 200
"""Number of linear predictors that are compared, evenly spaced."""


class _Moments(NamedTuple):
    """Weighted moments of the Laplace approximation."""

    mean: np.ndarray
    sd: np.ndarray
    error: np.ndarray
    """Standard error of the mean."""


@dataclass(frozen=True, eq=False)
class LaplaceComparison:
    """Difference between a Laplace approximation and the exact posterior.

    Attributes
    ----------
    table : pandas.DataFrame
        One row per quantity, with the columns exact_mean, exact_sd, laplace_mean, laplace_sd, error (difference of the
        means in exact posterior standard deviations), error_mcse (its Monte Carlo error), and sd_ratio.
        Hyperparameters are on the unconstrained scale: logarithms of standard deviations.
    effective_points : float
        Effective number of values of the hyperparameters in the Laplace approximation.
    """

    table: Any
    effective_points: float

    def plot(self, axes: Any = None) -> Any:
        """Plot the errors of the means with 95% intervals of their Monte Carlo error. Return the matplotlib Axes."""
        import matplotlib.pyplot as plt

        axes = axes or plt.subplots(figsize=(6, 0.3 * len(self.table) + 1.5), layout="constrained")[1]
        position = np.arange(len(self.table))[::-1]
        axes.errorbar(self.table.error, position, xerr=1.96 * self.table.error_mcse, fmt="o", markersize=4)
        axes.axvline(0, color="0.6", linewidth=1)
        axes.set_yticks(position, list(self.table.index))
        axes.set_xlabel("Laplace mean minus exact mean, in posterior standard deviations")
        return axes

    def __repr__(self) -> str:
        return f"{self.table.round(3).to_string()}\n({self.effective_points:.0f} effective points of the Laplace grid)"


def compare_with_laplace(fit: LatentFit, points: int) -> LaplaceComparison:
    """Return the comparison; see `LatentFit.compare_with_laplace`."""
    import pandas

    own = fit.model.definition
    posterior = own.posterior
    u, eta = _exact_draws(fit)
    rows = np.unique(np.linspace(0, eta.shape[2] - 1, min(eta.shape[2], LARGEST_WEIGHTED)).astype(int))
    names = [*posterior.hyperparameters.names, *(f"linear_predictor[{row}]" for row in rows)]
    exact = np.concatenate([u, eta[:, :, rows]], axis=2)
    laplace, effective = _laplace(posterior, fit.move.settings.student, rows, points)
    ess = _bulk_ess(exact)
    mean, sd = exact.mean((0, 1)), exact.std((0, 1))
    table = pandas.DataFrame(
        {
            "exact_mean": mean,
            "exact_sd": sd,
            "laplace_mean": laplace.mean,
            "laplace_sd": laplace.sd,
            "error": (laplace.mean - mean) / sd,
            "error_mcse": np.sqrt(1 / ess + (laplace.error / sd) ** 2),
            "sd_ratio": laplace.sd / sd,
        },
        index=names,
    )
    return LaplaceComparison(table, effective)


def _exact_draws(fit: LatentFit) -> tuple[np.ndarray, np.ndarray]:
    """Return the draws of unconstrained hyperparameters and of linear predictors, shape (chains, draws, ...)."""
    hyperparameters = fit.model.definition.posterior.hyperparameters
    observed = np.flatnonzero(fit.model.definition.observed)
    eta = fit.linear_predictor().values[:, :, observed]
    if not hyperparameters.size:
        return np.zeros((*eta.shape[:2], 0)), eta
    values = {name: fit.tree["posterior"][name].values for name in hyperparameters.names}
    return hyperparameters.parameters.unconstrain(
        {name: value[..., None].squeeze(-1) for name, value in values.items()}
    ).reshape(*eta.shape[:2], -1), eta


def _laplace(posterior: LatentPosterior, student: StudentT, rows: np.ndarray, points: int) -> tuple[_Moments, float]:
    """Return moments of the Laplace approximation by importance sampling of the hyperparameters."""
    rng = np.random.default_rng(0)
    count = points if student.size else 1
    normals, chi_square = rng.standard_normal((count, student.size)), rng.chisquare(student.degrees_of_freedom, count)
    away = (normals @ student.factor.T) * np.sqrt(student.degrees_of_freedom / chi_square)[:, None]
    first = posterior.at(student.centre)
    eta = posterior.assembly.offset if first is None else first_predictor(first.likelihood, posterior.assembly.offset)
    log_weights, means, variances = [], [], []
    for each in away[np.argsort(student.size and (away**2).sum(1))]:
        at = posterior.at(student.centre + each)
        with np.errstate(all="ignore"):
            mode = None if at is None else find_mode(posterior, at, eta)
        if mode is None:
            continue
        log_weights.append(mode.log_density - student.log_density(each))
        means.append(np.concatenate([student.centre + each, mode.eta[rows]]))
        variances.append(np.concatenate([np.zeros(student.size), mode.reference.variances()[rows]]))
    weights = np.exp(np.array(log_weights) - max(log_weights))
    weights /= weights.sum()
    centre = weights @ np.stack(means)
    spread = (np.stack(means) - centre) ** 2
    error = np.sqrt(weights**2 @ spread)
    return _Moments(centre, np.sqrt(weights @ (spread + np.stack(variances))), error), float(1 / (weights**2).sum())


def _bulk_ess(draws: np.ndarray) -> np.ndarray:
    from arviz_stats.base import array_stats

    columns = np.moveaxis(draws, 2, 0)
    return np.array([float(array_stats.ess(each, chain_axis=0, draw_axis=1, method="bulk")) for each in columns])

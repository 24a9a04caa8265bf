"""`LatentFit`: draws of a latent Gaussian model, with summaries, predictions and plots."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ellipslice.checks import whole_number
from ellipslice.latent.predict import linear_predictor, predict
from ellipslice.latent.update import LatentUpdate

if TYPE_CHECKING:
    import xarray

    from ellipslice.convergence import ConvergenceReport
    from ellipslice.latent.compare_laplace import LaplaceComparison
    from ellipslice.latent.leave_out.loo import LeaveOneOut
    from ellipslice.latent.model import LatentGaussianModel

INTERVAL = (0.025, 0.5, 0.975)
"""Quantiles of a summary."""


class LatentFit:
    """Draws from the posterior of a latent Gaussian model; returned by `LatentGaussianModel.fit`.

    Attributes
    ----------
    model : LatentGaussianModel
    tree : xarray.DataTree
        Draws of the hyperparameters and of the effects of all terms by name, and statistics of the run.
    move : LatentUpdate
        The move with the settings that the pilot run found.
    """

    def __init__(self, model: LatentGaussianModel, tree: xarray.DataTree, move: LatentUpdate):
        self.model, self.tree, self.move = model, tree, move
        tree.attrs["solver"] = model.definition.solver
        tree.attrs["model"] = repr(model)

    @cached_property
    def convergence(self) -> ConvergenceReport:
        """Result of `diagnostics.check_convergence` for the draws."""
        from ellipslice.diagnostics import check_convergence

        return check_convergence(self.tree)

    def summary(self, names: Any = None) -> Any:
        """Return means, standard deviations, quantiles and diagnostics of hyperparameters and effects.

        Parameters
        ----------
        names : str or list of str, optional
            Variables of the posterior. Default: all hyperparameters and fixed effects.

        Returns
        -------
        pandas.DataFrame
            One row for each element, with the columns mean, sd, 2.5%, 50%, 97.5%, ess (bulk effective sample size) and
            rhat.
        """
        from ellipslice.latent.summary import summarise

        return summarise(self, names, INTERVAL)

    def linear_predictor(self, draws: int | None = None) -> xarray.DataArray:
        """Return the linear predictor of every row of the data, also of rows without a response.

        It is computed when it is asked for, and not stored.

        Parameters
        ----------
        draws : int, optional
            Number of evenly spaced draws in all. Default: all.

        Returns
        -------
        xarray.DataArray
            Dimensions (chain, draw, row).
        """
        return linear_predictor(self.model.definition, self.tree, draws)

    def predict(self, data: Any = None, *, draws: int | None = 1000, seed: int = 0) -> xarray.Dataset:
        """Predict the responses of rows of data.

        A new level of `IID`, `RW1`, `RW2`, `AR1`, `Seasonal` or `GP` gets an effect for each draw, drawn from its prior
        given the other effects of the term: so these terms forecast. `Matern` interpolates. New levels of other terms
        raise.

        Parameters
        ----------
        data : DataFrame or mapping of str to array, optional
            New rows, with all columns that the model uses except the response. Default: the rows of the fit, also those
            without a response.
        draws : int, optional
            Number of evenly spaced posterior draws to use, in all. Default: 1000. None: all.
        seed : int
            Seed of the predictions. Default: 0.

        Returns
        -------
        xarray.Dataset
            `linear_predictor`, `expected` (the expected response) and `predictive` (draws of responses), with
            dimensions (chain, draw, row). Quantiles of `expected` are credible intervals, and those of `predictive` are
            predictive intervals. If the family is a function, there is only `linear_predictor`.
        """
        return predict(self.model.definition, self.tree, data, draws, whole_number("seed", seed, 0))

    def plot(self, name: str, axes: Any = None) -> Any:
        """Plot the effect of a term with its 50 % and 90 % intervals, or the posterior of a hyperparameter.

        Parameters
        ----------
        name : str
            Variable of the posterior.
        axes : matplotlib Axes, optional
            Where to plot. Default: a new figure.

        Returns
        -------
        matplotlib Axes
        """
        from ellipslice.latent.plot import plot

        return plot(self, name, axes)

    def loo(self, draws: int = 400, *, groups: Any = None, refit: bool = False) -> LeaveOneOut:
        """Estimate the log predictive density of each response given the others, without fitting the model again.

        For each draw, the linear predictor of the row that is left out is integrated out. Plain importance sampling of
        the pointwise log-likelihood does not do so, and is wrong where each observation has its own effect.

        Parameters
        ----------
        draws : int
            Number of evenly spaced draws to use, in all. Default: 400. The time is proportional to it, and to the
            square of the number of rows.
        groups : array, optional
            One label per row, such as `data["hospital"]`: all rows of a group are left out at once. Default: one row.
        refit : bool
            Fit the model again without each row or group whose Pareto k is too large. Default: False, with a warning.

        Returns
        -------
        LeaveOneOut
            An `ELPDData` of ArviZ: sum, standard error, difference from the log densities with the responses, and
            values of each row or group with Pareto k.
        """
        from ellipslice.latent.leave_out.loo import leave_one_out

        return leave_one_out(self, whole_number("draws", draws, 20), groups, refit)

    def compare(
        self, *others: LatentFit, names: Sequence[str] | None = None, draws: int = 400, refit: bool = False
    ) -> Any:
        """Compare models of the same responses by their expected log predictive densities.

        Parameters
        ----------
        *others : LatentFit
            Fits of other models.
        names : sequence of str, optional
            One name for each fit, this one first. Default: "model 1", "model 2" and so on.
        draws, refit : optional
            As for `loo`.

        Returns
        -------
        pandas.DataFrame
            One row for each model, the best first. `elpd_diff` is the difference from the best model, and `dse` its
            standard error, which takes into account that the responses are the same. `weight` is the stacking weight.
        """
        from ellipslice.latent.leave_out.compare import compare_fits

        return compare_fits([self, *others], names, whole_number("draws", draws, 20), refit)

    def compare_with_laplace(self, points: int = 400) -> LaplaceComparison:
        """Compare the exact posterior with the Laplace approximation that INLA and TMB use.

        Parameters
        ----------
        points : int
            Number of values of the hyperparameters at which the Laplace approximation is computed. Default: 400.

        Returns
        -------
        LaplaceComparison
            For each hyperparameter, fixed effect and linear predictor: the difference of the posterior means in
            posterior standard deviations, with its Monte Carlo error, and the ratio of the standard deviations.
        """
        from ellipslice.latent.compare_laplace import compare_with_laplace

        return compare_with_laplace(self, whole_number("points", points, 20))

    def __repr__(self) -> str:
        sizes = self.tree["posterior"].sizes
        return f"LatentFit({self.model!r}, {sizes['chain']} chains of {sizes['draw']} draws)"

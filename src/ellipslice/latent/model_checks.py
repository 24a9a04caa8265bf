"""`ModelChecks`: the methods of a fit for cross-validation, predictive checks and ArviZ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ellipslice.checks import whole_number

if TYPE_CHECKING:
    import xarray

    from ellipslice.latent.leave_out.loo import LeaveOneOut
    from ellipslice.latent.model import LatentGaussianModel
    from ellipslice.latent.update import LatentUpdate


class ModelChecks:
    """Base class of `LatentFit`: leave-one-out, posterior predictive checks, and results for ArviZ."""

    def __init__(self, model: LatentGaussianModel, tree: xarray.DataTree, move: LatentUpdate):
        self.model, self.tree, self.move = model, tree, move

    def posterior_predictive(self, draws: int | None = 1000, *, seed: int = 0) -> xarray.Dataset:
        """Draw responses at the rows with a response, from the posterior predictive distribution.

        The effects of all levels are those of the draw, and none is drawn anew: the draws are for checks of the fit.
        Survival times are drawn without censoring.

        Parameters
        ----------
        draws : int, optional
            Number of evenly spaced posterior draws to use, in all. Default: 1000. None: all.
        seed : int
            Default: 0.

        Returns
        -------
        xarray.Dataset
            The response by its name, with dimensions (chain, draw, row).
        """
        from ellipslice.latent.posterior_predictive import posterior_predictive

        return posterior_predictive(self, _draws(draws), whole_number("seed", seed, 0))

    def plot_check(self, axes: Any = None, *, draws: int = 400, seed: int = 0) -> Any:
        """Plot the distribution of the responses and of posterior predictive draws.

        For counts it is a rootogram: square roots of the numbers of responses with each value, with 90 % intervals of
        the predictive draws. For other responses, and for counts with a wide range, it shows densities. It warns if
        responses are censored, because predictive draws are not.

        Parameters
        ----------
        axes : matplotlib Axes, optional
            Where to plot. Default: a new figure.
        draws, seed : int
            As for `posterior_predictive`. Default: 400 draws.

        Returns
        -------
        matplotlib Axes
        """
        from ellipslice.latent.posterior_predictive import plot_check

        return plot_check(self, whole_number("draws", draws, 2), whole_number("seed", seed, 0), axes)

    def to_dataframe(self, names: Any = None) -> Any:
        """Return the draws as a table.

        Parameters
        ----------
        names : str or list of str, optional
            Variables of the posterior. Default: all.

        Returns
        -------
        pandas.DataFrame
            One row for each draw, with the index (chain, draw), and one column for each element.
        """
        from ellipslice.latent.summary import draws_table

        return draws_table(self, names)

    def to_arviz(
        self, groups: Sequence[str] | None = None, *, draws: int | None = None, seed: int = 0, legacy: bool = False
    ) -> Any:
        """Return the draws with the groups that functions of ArviZ read.

        Parameters
        ----------
        groups : sequence of str, optional
            Groups in addition to `posterior` and `sample_stats`: "log_likelihood" (pointwise, given the linear
            predictor), "posterior_predictive", "observed_data", "constant_data" (offset, exposure and others), "prior"
            and "prior_predictive". Default: the first four.
        draws : int, optional
            Number of evenly spaced draws to use, in all. Default: all.
        seed : int
            Seed of predictive and prior draws. Default: 0.
        legacy : bool
            Return an `InferenceData` for `arviz` before version 1, which PyMC 5 installs. Default: False.

        Returns
        -------
        xarray.DataTree or arviz.InferenceData
            The tree is for `arviz_base`, `arviz_stats`, `arviz_plots` and `arviz` from version 1.

        Notes
        -----
        Use `loo` of this class. That of ArviZ does not integrate the linear predictor out.
        """
        from ellipslice.latent.arviz_groups import to_inference_data, with_groups

        tree = with_groups(self, groups, _draws(draws), whole_number("seed", seed, 0))
        return to_inference_data(tree) if legacy else tree

    def loo(self, draws: int = 400, *, groups: Any = None, refit: bool = False) -> LeaveOneOut:
        """Estimate the log predictive density of each response given the others, without fitting the model again.

        For each draw, the linear predictor of the row that is left out is integrated out. Plain importance sampling of
        the pointwise log-likelihood does not do so, and is wrong where each observation has its own effect.

        Parameters
        ----------
        draws : int
            Number of evenly spaced draws to use, in all; at least 25. Default: 400. The time is proportional to it, and
            to the square of the number of rows.
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
        from ellipslice.latent.leave_out.smoothing import FEWEST_DRAWS

        return leave_one_out(self, whole_number("draws", draws, FEWEST_DRAWS), groups, refit)

    def compare(
        self, *others: ModelChecks, names: Sequence[str] | None = None, draws: int = 400, refit: bool = False
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
        from ellipslice.latent.leave_out.smoothing import FEWEST_DRAWS

        return compare_fits([self, *others], names, whole_number("draws", draws, FEWEST_DRAWS), refit)


def _draws(draws: int | None) -> int | None:
    return None if draws is None else whole_number("draws", draws, 1)

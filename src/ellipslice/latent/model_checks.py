"""`ModelChecks`: the methods of a fit for cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ellipslice.checks import whole_number
from ellipslice.latent.arviz_groups import GROUPS, default_groups
from ellipslice.latent.fit_checks import FitChecks
from ellipslice.latent.posterior_predictive import censored_responses

if TYPE_CHECKING:
    import xarray

    from ellipslice.latent.leave_out.loo import LeaveOneOut
    from ellipslice.latent.model import LatentGaussianModel
    from ellipslice.latent.update import LatentUpdate


class ModelChecks(FitChecks):
    """Base class of `LatentFit`: leave-one-out, and the groups for ArviZ."""

    _groups = GROUPS

    def __init__(self, model: LatentGaussianModel, tree: xarray.DataTree, move: LatentUpdate):
        self.model, self.tree, self.move = model, tree, move

    def _default_groups(self) -> Sequence[str]:
        return default_groups(self)

    def _censored(self) -> int:
        return censored_responses(self.model.definition)

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

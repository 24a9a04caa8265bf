"""`LatentFit`: draws of a latent Gaussian model, with summaries, predictions and plots."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from ellipslice.checks import whole_number
from ellipslice.latent.model_checks import ModelChecks
from ellipslice.latent.predict import linear_predictor, predict
from ellipslice.latent.update import LatentUpdate

if TYPE_CHECKING:
    from pathlib import Path

    import xarray

    from ellipslice.bridge import LogEvidence
    from ellipslice.convergence import ConvergenceReport
    from ellipslice.latent.compare_laplace import LaplaceComparison
    from ellipslice.latent.model import LatentGaussianModel
    from ellipslice.sampling import Until

INTERVAL = (0.025, 0.5, 0.975)
"""Quantiles of a summary."""


class LatentFit(ModelChecks):
    """Draws from the posterior of a latent Gaussian model; returned by `LatentGaussianModel.fit`.

    Attributes
    ----------
    model : LatentGaussianModel
    tree : xarray.DataTree
        Draws of the hyperparameters and of the effects of all terms by name, and statistics of the run.
    move : LatentUpdate
        The move with the settings that the pilot run found.
    store : path or None
        Folder with the draws.
    """

    def __init__(
        self, model: LatentGaussianModel, tree: xarray.DataTree, move: LatentUpdate, store: Path | None = None
    ):
        super().__init__(model, tree, move)
        self.store = store
        tree.attrs["solver"] = model.definition.solver
        tree.attrs["model"] = repr(model)

    @cached_property
    def convergence(self) -> ConvergenceReport:
        """Result of `diagnostics.check_convergence` for the draws."""
        from ellipslice.diagnostics import check_convergence

        return check_convergence(self.tree)

    def extend(self, draws: int | None = None, *, until: Until | None = None, progress: bool = True) -> LatentFit:
        """Continue the run, for example because it has not converged.

        The first draws of the result are those of this fit, bit for bit on the same machine: it is the fit that a
        longer run would have given. A run with a store continues from its last state. A run without a store is
        repeated with its seed and its final warm-up and thinning, so the time of the first draws is spent again.

        Parameters
        ----------
        draws : int, optional
            Number of draws per chain, including those so far. Default: twice the number so far.
        until : Until, optional
            Stopping rule instead of a number of draws.
        progress : bool
            Show a progress bar in a terminal or notebook. Default: True.

        Returns
        -------
        LatentFit
        """
        attributes, count = self.tree.attrs, self.tree["posterior"].sizes["draw"]
        if draws is None and until is None:
            draws = 2 * count
        if draws is not None and whole_number("draws", draws, 1) <= count:
            raise ValueError(
                f"draws is {draws}, but the fit has {count} draws per chain already. Give a larger number."
            )
        if self.store is not None:
            return self.model.resume(self.store, draws=draws, until=until, progress=progress)
        warmup, chains, thin = (int(attributes[name]) for name in ("warmup", "chains", "thin"))
        return self.model.fit(
            draws=draws, until=until, warmup=warmup, chains=chains, thin=thin, seed=int(attributes["seed"]),
            progress=progress,
        )  # fmt: skip

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

        It is computed at each call, and not stored.

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
        raise an error.

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
            Axes of the plot. Default: a new figure.

        Returns
        -------
        matplotlib Axes
        """
        from ellipslice.latent.plot import plot

        return plot(self, name, axes)

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

    def log_evidence(self, draws: int = 1000, seed: int = 0) -> LogEvidence:
        """Estimate the log marginal likelihood of the model, with hyperparameters and effects integrated out.

        New chains with the move of the fit make posterior draws in the white coordinates of the reference. Bridge
        sampling combines them with draws of an approximation whose density is known: t distributions, fitted to the
        hyperparameters of the fit, and standard normals. All constants are included. A family that is a function must
        include its own.

        Parameters
        ----------
        draws : int
            Number of new posterior draws, in all chains, and of draws of the approximation. At least 100. Default:
            1000.
        seed : int
            Default: 0.

        Returns
        -------
        LogEvidence
            log Z with its standard error and diagnostics.

        Raises
        ------
        ValueError
            If the prior of a term is improper. The message names it.
        UnreliableEvidenceError
            If the draws do not determine log Z. The message states why.
        """
        from ellipslice.bridge.result import number_of_draws
        from ellipslice.latent.log_evidence import log_evidence

        return log_evidence(self, number_of_draws(draws), whole_number("seed", seed, 0))

    def __repr__(self) -> str:
        sizes = self.tree["posterior"].sizes
        return f"LatentFit({self.model!r}, {sizes['chain']} chains of {sizes['draw']} draws)"

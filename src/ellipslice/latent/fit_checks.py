"""`FitChecks`: the methods of fits for posterior predictive checks, tables and ArviZ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ellipslice.checks import reject_unknown_names, warn, whole_number
from ellipslice.result_parts import thinned

if TYPE_CHECKING:
    import xarray


class FitChecks:
    """Base class of `LatentFit` and `gp.Fit`: posterior predictive checks, and results for tables and ArviZ."""

    tree: xarray.DataTree
    _groups: ClassVar[Mapping[str, Callable[[Any, int | None, int], Any]]]
    """Functions of a fit, a number of draws and a seed that return a group for ArviZ, by its name."""

    def _default_groups(self) -> Sequence[str]:
        """Return the groups that `to_arviz` adds by default."""
        raise NotImplementedError

    def _censored(self) -> int:
        """Return the number of responses that are censored survival times."""
        return 0

    def posterior_predictive(self, draws: int | None = 1000, *, seed: int = 0) -> xarray.Dataset:
        """Draw responses at the rows of the data with a response, from the posterior predictive distribution.

        All effects and latent functions are those of the draw, and none is drawn anew: the draws are for checks of the
        fit. Survival times are drawn without censoring.

        Parameters
        ----------
        draws : int, optional
            Number of evenly spaced posterior draws to use, in all. Default: 1000. None: all.
        seed : int
            Default: 0.

        Returns
        -------
        xarray.Dataset
            The response by its name, with dimensions (chain, draw, row), or (chain, draw, point) for `LatentGP`.
        """
        return self._groups["posterior_predictive"](self, _draws(draws), whole_number("seed", seed, 0))

    def plot_check(self, axes: Any = None, *, draws: int = 400, seed: int = 0) -> Any:
        """Plot the distribution of the responses and of posterior predictive draws.

        For counts it is a rootogram: square roots of the numbers of responses with each value, with 90 % intervals of
        the predictive draws. For other responses, and for counts with a wide range, it shows densities. It
        warns if responses are censored, because predictive draws are not.

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
        from ellipslice.latent.plot_check import plot_check

        drawn = self.posterior_predictive(whole_number("draws", draws, 2), seed=seed)
        (name,) = drawn.data_vars
        observed = self._groups["observed_data"](self, None, seed)[name].values.ravel()
        if censored := self._censored():
            warn(
                f"{censored} of {len(observed)} responses are censored, but predictive draws are not, so the plot "
                "shows a difference even if the model is right. Apply the censoring to the draws of "
                "fit.posterior_predictive() before you compare them."
            )
        return plot_check(str(name), observed, drawn[name].values.reshape(-1, len(observed)), axes)

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
            predictor or the latent function), "posterior_predictive", "observed_data" and "constant_data" (offset,
            exposure and others, or the inputs of `LatentGP`); for `LatentGaussianModel` also "prior" and
            "prior_predictive". Default: the first four, of which some are left out if the likelihood is a function.
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
        Use `LatentFit.loo` for models that have it. That of ArviZ does not integrate the linear predictor out.
        """
        names = self._default_groups() if groups is None else [groups] if isinstance(groups, str) else list(groups)
        reject_unknown_names("groups", names, self._groups)
        tree = self._with_groups(names, _draws(draws), whole_number("seed", seed, 0))
        return _inference_data(tree) if legacy else tree

    def _with_groups(self, names: Sequence[str], draws: int | None, seed: int) -> xarray.DataTree:
        """Return the draws with more groups."""
        import xarray

        posterior, statistics = (self.tree[group].to_dataset() for group in ("posterior", "sample_stats"))
        if draws is not None:
            posterior, statistics = thinned(posterior, draws), thinned(statistics, draws)
        tree = xarray.DataTree.from_dict({"posterior": posterior, "sample_stats": statistics}, name="ellipslice")
        tree.attrs.update(self.tree.attrs)
        for name in names:
            tree[name] = xarray.DataTree(self._groups[name](self, draws, seed))
        return tree


def _inference_data(tree: xarray.DataTree) -> Any:
    """Return a tree as `arviz.InferenceData`. Raise if the installed ArviZ has none."""
    try:
        from arviz import InferenceData  # pyright: ignore[reportAttributeAccessIssue, reportMissingImports]
    except ImportError:
        raise ImportError(
            "no arviz.InferenceData is installed. It is part of arviz before version 1; newer versions read the tree: "
            "to_arviz()."
        ) from None
    groups: dict[str, Any] = {str(name): group.to_dataset() for name, group in tree.children.items()}
    return InferenceData(attrs=tree.attrs, **groups)


def _draws(draws: int | None) -> int | None:
    return None if draws is None else whole_number("draws", draws, 1)

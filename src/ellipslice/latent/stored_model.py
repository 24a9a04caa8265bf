"""`StoredModel`: the methods of a latent Gaussian model that read a store."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, cast

from ellipslice.checks import as_path
from ellipslice.latent.definition import Definition
from ellipslice.latent.fit import LatentFit
from ellipslice.latent.joint import KeepPoint, LatentPrior, PointLikelihood
from ellipslice.latent.stored import restored_move, stored_tree
from ellipslice.sampling import Until, resume

if TYPE_CHECKING:
    from ellipslice.latent.model import LatentGaussianModel


class StoredModel:
    """Base class of `LatentGaussianModel`: continue and open runs that are in a store."""

    _definition: Definition

    @property
    def definition(self) -> Definition:
        """The checked parts of the model."""
        return self._definition

    def resume(
        self,
        store: str | os.PathLike[str],
        *,
        draws: int | None = None,
        until: Until | None = None,
        executor: Executor | Callable[[], Executor] | None = None,
        timeout: float | None = None,
        progress: bool = True,
    ) -> LatentFit:
        """Continue a run that `fit(..., store=...)` began, or add draws to it.

        The model must be that of the store. The store contains the settings that the pilot run found, so this is not
        repeated.

        Parameters
        ----------
        store : path
            Folder that was given to `fit`.
        draws : int, optional
            Number of draws per chain, including those in the store. Default: that of the store.
        until : Until, optional
            New stopping rule. Default: that of the store.
        executor, timeout : optional
            Workers, and seconds to wait for an answer, as for `sample`.
        progress : bool
            Show a progress bar in a terminal or notebook. Default: True.

        Returns
        -------
        LatentFit
            All draws of the store.

        Raises
        ------
        ValueError
            If the store was made with another model or other data, or is damaged.
        """
        own, path = self._definition, as_path(store)
        move = restored_move(own.posterior, path, repr(self))
        tree = resume(
            path, PointLikelihood(own.posterior), prior=LatentPrior(own.posterior, repr(self)), move=move,
            keep=KeepPoint(own.posterior, own.effects), draws=draws, until=until, executor=executor, timeout=timeout,
            progress=progress,
        )  # fmt: skip
        return LatentFit(cast("LatentGaussianModel", self), tree, move, path)

    def open(self, store: str | os.PathLike[str]) -> LatentFit:
        """Return the fit in a store, for summaries, predictions and plots; also during the run that writes it.

        Nothing is run. Only names and sizes are compared with the store, so make sure that the model and its data are
        those of the run.

        Parameters
        ----------
        store : path
            Folder that was given to `fit`.

        Returns
        -------
        LatentFit
            The draws that are in the store now.

        Raises
        ------
        ValueError
            If the store does not fit the model, is damaged, or has no draws yet.
        """
        own, path = self._definition, as_path(store)
        tree = stored_tree(own, path, repr(self))
        return LatentFit(cast("LatentGaussianModel", self), tree, restored_move(own.posterior, path, repr(self)), path)

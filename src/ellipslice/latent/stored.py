"""Contents of the store of a latent Gaussian model: the move, as numbers without the model, and the draws."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ellipslice.latent.definition import Definition
from ellipslice.latent.posterior import LatentPosterior, WhitePosterior
from ellipslice.latent.scales import Scales
from ellipslice.latent.sites import InterpolatedSites
from ellipslice.latent.student import StudentT
from ellipslice.latent.update import LatentUpdate, UpdateSettings
from ellipslice.store.read import open_tree
from ellipslice.store.stored_run import stored_parts
from ellipslice.store.verify import check_draws

if TYPE_CHECKING:
    import xarray


def restored_move(posterior: LatentPosterior, path: Path, model: str) -> LatentUpdate:
    """Return the move of a stored run. Raise if it does not fit the model."""
    try:
        stored = StoredSettings.read(stored_parts(path, "move"), posterior)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is not a store of {model}: {error}") from None
    return stored.move(posterior)


def stored_tree(own: Definition, path: Path, model: str) -> xarray.DataTree:
    """Return the draws of a store. Raise if there are none, or if names or sizes do not fit the model."""
    check_draws(path)
    tree = open_tree(path)
    found = {str(name): values.shape[2:] for name, values in tree["posterior"].data_vars.items()}
    effects = own.effects(np.zeros((1, own.posterior.assembly.size)))
    expected = {name: values.shape[1:] for name, values in effects.items()}
    if found != {**dict.fromkeys(own.posterior.hyperparameters.names, ()), **expected}:
        raise ValueError(
            f"{path} contains {', '.join(found)}, which is not a fit of {model}. Use the model and the data of the run "
            "that made the store."
        )
    if not tree["posterior"].sizes["draw"]:
        raise ValueError(f"{path} has no draws yet: its chains are in their warm-up. Open it again later.")
    return tree


class StoredSettings(NamedTuple):
    """The numbers of a `LatentUpdate`. Stores contain them in this order; `eta` is left out if it is None."""

    own: np.ndarray
    """True for each of the t distributions that is on the hyperparameters' own scale."""
    centres: np.ndarray
    factors: np.ndarray
    spread: np.ndarray
    kicks: int
    sites_centre: np.ndarray
    sites_factor: np.ndarray
    anchors: np.ndarray
    width: float
    precision: np.ndarray
    linear: np.ndarray
    eta: np.ndarray | None = None

    @classmethod
    def of(cls, move: LatentUpdate) -> StoredSettings:
        """Return the stored form of a move."""
        settings, sites = move.settings, move.white.sites
        if not isinstance(sites, InterpolatedSites):
            raise TypeError("the sites of the move are not interpolated sites, so it cannot be stored.")
        return cls(
            np.array([student.scales.own for student in settings.students]),
            np.stack([student.centre for student in settings.students]),
            np.stack([student.factor for student in settings.students]),
            settings.spread, settings.kicks, sites.student.centre, sites.student.factor,
            sites.anchors, sites.width, sites.precision, sites.linear, sites.eta,
        )  # fmt: skip

    @classmethod
    def read(cls, leaves: list[Any], posterior: LatentPosterior) -> StoredSettings:
        """Return the stored form from the parts in a store. Raise if they do not fit the model."""
        if len(leaves) not in (len(cls._fields) - 1, len(cls._fields)):
            raise ValueError("its move is not that of a latent Gaussian model.")
        stored = cls(*leaves)
        count, rows = posterior.hyperparameters.size, len(posterior.assembly.offset)
        anchors, students = np.shape(stored.anchors)[:1], np.shape(stored.own)
        expected = {
            "centres": (*students, count), "factors": (*students, count, count), "spread": (count, count),
            "sites_centre": (count,), "sites_factor": (count, count), "anchors": (*anchors, count),
            "precision": (*anchors, rows), "linear": (*anchors, rows),
        }  # fmt: skip
        for name, shape in expected.items():
            if np.shape(getattr(stored, name)) != shape:
                raise ValueError(
                    f"its {name} has shape {np.shape(getattr(stored, name))}, but the model needs {shape}. Use the "
                    "model and the data that it was made with."
                )
        return stored

    @property
    def leaves(self) -> list[Any]:
        """The parts that a store contains."""
        return [part for part in self if part is not None]

    def move(self, posterior: LatentPosterior) -> LatentUpdate:
        """Return the move for a model."""
        priors = list(posterior.hyperparameters.parameters.priors.values())
        students = tuple(
            StudentT(Scales.of(priors, bool(own)), np.asarray(centre), np.asarray(factor))
            for own, centre, factor in zip(self.own, self.centres, self.factors, strict=True)
        )
        around = StudentT(Scales.of(priors, False), np.asarray(self.sites_centre), np.asarray(self.sites_factor))
        offset, width = posterior.assembly.offset, float(self.width)
        sites = InterpolatedSites(around, self.anchors, width, self.precision, self.linear, offset, self.eta)
        settings = UpdateSettings(students, np.asarray(self.spread), int(self.kicks))
        return LatentUpdate(WhitePosterior(posterior, sites), settings)

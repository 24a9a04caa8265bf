"""Read a fit from a store: its move and its draws, checked against the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ellipslice.latent.posterior import LatentPosterior
from ellipslice.latent.stored import restored_move
from ellipslice.latent.update import LatentUpdate
from ellipslice.parameters.joint_update import JointUpdate
from ellipslice.store.read import open_tree
from ellipslice.store.stored_run import stored_parts

if TYPE_CHECKING:
    import xarray

    from ellipslice.gp.model import LatentGP


def stored_move(
    model: LatentGP, path: Path, inputs: np.ndarray, series: LatentPosterior | None
) -> JointUpdate | LatentUpdate | None:
    """Return the move of a stored run; None if all hyperparameters are known. Raise if it does not fit the model."""
    if not model.parameters.size:
        return None
    if series is not None:
        return restored_move(series, path, repr(model))
    try:
        return JointUpdate.restored(model.joint, inputs, stored_parts(path, "move"))
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(f"{path} is not a store of {model!r}: {error}") from None


def stored_tree(model: LatentGP, path: Path, inputs: np.ndarray) -> xarray.DataTree:
    """Return the draws of a store. Raise if there are none, or if names or sizes do not fit the model."""
    tree = open_tree(path)
    expected = {*model.latents, *model.parameters.priors}
    found = {str(name): values.sizes for name, values in tree["posterior"].data_vars.items()}
    if set(found) != expected or any(list(found[name].values())[2:] != [len(inputs)] for name in model.latents):
        raise ValueError(
            f"{path} contains {', '.join(found)}, which is not a fit of {model!r} to {len(inputs)} points. Use the "
            "model and the data of the run that made the store."
        )
    if not tree["posterior"].sizes["draw"]:
        raise ValueError(f"{path} has no draws yet: its chains are in their warm-up. Open it again later.")
    return tree

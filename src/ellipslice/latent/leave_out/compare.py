"""The difference between models in their expected log predictive density, with its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from arviz_stats import compare  # pyright: ignore[reportPrivateImportUsage]

from ellipslice.latent.leave_out.loo import leave_one_out

if TYPE_CHECKING:
    from ellipslice.latent.model_checks import ModelChecks


def compare_fits(fits: Sequence[ModelChecks], names: Sequence[str] | None, draws: int, refit: bool) -> Any:
    """Return the table of `LatentFit.compare`."""
    if len(fits) < 2:
        raise TypeError("compare requires another fit: fit.compare(other).")
    names = [f"model {number}" for number in range(1, len(fits) + 1)] if names is None else list(names)
    if len(set(names)) != len(fits):
        raise ValueError(
            f"names has {len(set(names))} different names, but there are {len(fits)} fits. Give one name for each fit, "
            "beginning with the one whose method is called."
        )
    first = fits[0].model.definition
    for fit, name in zip(fits, names, strict=True):
        own = fit.model.definition
        if not np.array_equal(own.y, first.y, equal_nan=True):
            raise ValueError(
                f"the responses of {name} are not those of {names[0]}. Compare fits of the same responses."
            )
    return compare({name: leave_one_out(fit, draws, None, refit) for name, fit in zip(names, fits, strict=True)})

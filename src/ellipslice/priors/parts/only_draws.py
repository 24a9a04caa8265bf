"""Priors without a linear map from standard normals to draws."""

from __future__ import annotations

from typing import Any

from ellipslice.priors.base import Prior


class OnlyDraws(Prior):
    """Base class of priors that are not a linear map of standard normals: they define `draw_zero_mean`."""

    @property
    def noise_size(self) -> int:
        raise self._missing_capability("unwhiten")

    def unwhiten(self, z: Any) -> Any:
        raise self._missing_capability("unwhiten")

    @property
    def linear(self) -> bool:
        return False

    @property
    def traceable(self) -> bool:
        return False

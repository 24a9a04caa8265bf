"""Advice for runs that have not converged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ellipslice.approximations.sites import MAX_REFERENCE_SIZE
from ellipslice.moves import ReferenceSlice, SplitHamiltonian


def advice_for_slow_mixing(attrs: Mapping[Any, Any], elements: int) -> str:
    """Return advice for a run that mixes slowly. It contains only changes that `sample` accepts for this run."""
    move, prior = str(attrs.get("move", "")), str(attrs.get("prior", ""))
    longer = "Run many more updates, and store only every k-th of them with thin=k."
    if "reference" in attrs or f"{ReferenceSlice.__name__}(" in move:
        return f"The reference Gaussian approximates the posterior poorly. {longer}"
    if f"{SplitHamiltonian.__name__}(" in move:
        return longer
    rejected = "parameter_moves" in attrs or "TruncatedGaussian(" in prior or "FromDraws(" in prior
    if rejected or elements > MAX_REFERENCE_SIZE:  # `sample` rejects reference= for these
        return longer
    cause = "Usually the likelihood is much more informative than the prior"
    around = "sample around a Gaussian approximation of the posterior, with reference='auto'"
    if attrs["engine"] == "fused":
        around += " and engine='batched'"
    if move and not move.startswith("EllipticalSlice("):
        around += " and without move="
    if "Local(" in move or any(str(name).endswith("structure") for name in attrs):  # a `LatentGP` has such attributes
        return f"{cause}: {around}."
    return (
        f"{cause}: {around}. If instead the prior contains a constant with a large variance, make the constant its own "
        "latent in a Stack, and use the move Local('names')."
    )

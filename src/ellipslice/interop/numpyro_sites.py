"""Which sites of a NumPyro model have a Gaussian prior, and which of them depend on others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from numpyro import distributions as dist
from numpyro.infer.gibbs import latent_sample_sites, subsample_plate_sizes
from numpyro.infer.inspect import get_dependencies

from ellipslice.interop.shared import consecutive_blocks

GAUSSIAN = (
    dist.CAR,
    dist.CirculantNormal,
    dist.GaussianRandomWalk,
    dist.GaussianStateSpace,
    dist.LowRankMultivariateNormal,
    dist.MatrixNormal,
    dist.MultivariateNormal,
    dist.Normal,
    dist.ZeroSumNormal,
)
"""NumPyro's Gaussians; with plates, `expand` and `to_event` around them they stay so."""


def gaussian_sites(model_trace: Any) -> tuple[str, ...]:
    """The latent sites of a trace with a Gaussian prior: a selector for NumPyro's `Gibbs`.

    >>> from ellipslice.interop.numpyro import EllipticalSlice, gaussian_sites
    >>> from numpyro.infer import NUTS, Gibbs
    >>> kernel = Gibbs([(EllipticalSlice(model), gaussian_sites), (NUTS(model), None)])  # doctest: +SKIP
    """
    return tuple(name for name in latent_sample_sites(model_trace) if why_not(model_trace[name]) is None)


def why_not(site: Any) -> str | None:
    """Why a site's prior is no Gaussian that can be drawn from; None if it is one."""
    base = site["fn"]
    while isinstance(base, dist.Independent | dist.ExpandedDistribution):
        base = base.base_dist
    if type(base) not in GAUSSIAN and not _is_tinygp(base):
        return f"its prior is a {type(base).__name__}"
    if site["scale"] is not None and not (isinstance(site["scale"], int | float) and site["scale"] == 1):
        return "its log-density is scaled, by a handler or a subsampled plate"
    return None


def _is_tinygp(distribution: Any) -> bool:
    support = sys.modules.get("tinygp.numpyro_support")  # imported already, if the model uses it
    return support is not None and isinstance(distribution, support.TinyDistribution)


def own_sites(model_trace: Any, sites: Sequence[str] | None) -> tuple[str, ...]:
    """The sites to update, refused unless they are all that is latent, and Gaussian."""
    latent = latent_sample_sites(model_trace)
    reasons = {name: reason for name in latent if (reason := why_not(model_trace[name])) is not None}
    if subsample_plate_sizes(model_trace):
        raise ValueError("the model has subsampled plates, for which EllipticalSlice has no exact update.")
    unknown = [name for name in sites or () if name not in latent]
    if unknown:
        raise ValueError(
            f"{', '.join(unknown)}: no such latent site. The model's are {', '.join(latent) or 'none'}; observed and "
            "deterministic ones do not count."
        )
    if sites is not None and not sites:
        raise ValueError(f"sites is empty. Expected names of latent sites, which are {', '.join(latent) or 'none'}.")
    own = latent if sites is None else tuple(name for name in latent if name in sites)
    if sites is not None and (refused := [name for name in own if name in reasons]):
        raise ValueError(
            f"EllipticalSlice needs sites with a Gaussian prior, but {refused[0]} has none: {reasons[refused[0]]}."
        )
    gaussian = [name for name in own if name not in reasons]
    if not gaussian:
        each = f": {', '.join(f'{name}, {reason}' for name, reason in reasons.items())}" if reasons else ""
        raise ValueError(
            f"no latent site of the model has a Gaussian prior{each}. EllipticalSlice has nothing to update. Sample it "
            "with another kernel of numpyro.infer, such as NUTS(model)."
        )
    rest = [name for name in latent if name not in own or name in reasons]
    if rest:
        because = f" ({reasons[rest[0]]})" if rest[0] in reasons else ""
        raise ValueError(
            f"EllipticalSlice updates {', '.join(gaussian)}, but the model has {', '.join(rest)} besides{because}. "
            f"Give the rest to another kernel: Gibbs([(EllipticalSlice(model), {gaussian}), (NUTS(model), None)]) of "
            "numpyro.infer."
        )
    return own


def in_blocks(
    model: Callable[..., Any], model_args: tuple[Any, ...], model_kwargs: dict[str, Any], own: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    """The sites in blocks that follow each other: the priors of one depend on those before it, and not on its own."""
    upstream: Any = get_dependencies(model, model_args, model_kwargs)["prior_dependencies"]
    return consecutive_blocks(own, upstream)  # they are in the model's order, so what one depends on comes before it

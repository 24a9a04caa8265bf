"""Find the sites of a NumPyro model with a Gaussian prior, and divide them into blocks."""

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
"""NumPyro's Gaussian distributions. They stay Gaussian under plates, `expand` and `to_event`."""


def gaussian_sites(model_trace: Any) -> tuple[str, ...]:
    """Return the names of the latent sites with a Gaussian prior. It is a selector for NumPyro's `Gibbs`.

    Parameters
    ----------
    model_trace : dict
        Trace of the model, which `Gibbs` passes.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from ellipslice.interop.numpyro import EllipticalSlice, gaussian_sites
    >>> from numpyro.infer import NUTS, Gibbs
    >>> kernel = Gibbs([(EllipticalSlice(model), gaussian_sites), (NUTS(model), None)])  # doctest: +SKIP
    """
    return tuple(name for name in latent_sample_sites(model_trace) if reason_against(model_trace[name]) is None)


def reason_against(site: Any) -> str | None:
    """Return the reason why the prior of a site is not a Gaussian that can be used; None if it is one."""
    base = site["fn"]
    while isinstance(base, dist.Independent | dist.ExpandedDistribution):
        base = base.base_dist
    if type(base) not in GAUSSIAN and not _is_tinygp(base):
        return f"its prior is a {type(base).__name__}"
    if site["scale"] is not None and not (isinstance(site["scale"], int | float) and site["scale"] == 1):
        return "its log density is scaled, by a handler or a subsampled plate"
    return None


def _is_tinygp(distribution: Any) -> bool:
    support = sys.modules.get("tinygp.numpyro_support")  # imported already, if the model uses it
    return support is not None and isinstance(distribution, support.TinyDistribution)


def own_sites(model_trace: Any, sites: Sequence[str] | None) -> tuple[str, ...]:
    """Return the sites to update. Raise unless all latent sites are among them and have Gaussian priors."""
    latent = latent_sample_sites(model_trace)
    reasons = {name: reason for name in latent if (reason := reason_against(model_trace[name])) is not None}
    if subsample_plate_sizes(model_trace):
        raise ValueError(
            "the model has subsampled plates, for which EllipticalSlice has no exact update. Use all data: leave "
            "subsample_size out."
        )
    unknown = [name for name in sites or () if name not in latent]
    if unknown:
        raise ValueError(
            f"{', '.join(unknown)}: no such latent site. The model's are {', '.join(latent) or 'none'}. Observed and "
            "deterministic sites cannot be updated."
        )
    if sites is not None and not sites:
        raise ValueError(f"sites is empty. Expected names of latent sites, which are {', '.join(latent) or 'none'}.")
    own = latent if sites is None else tuple(name for name in latent if name in sites)
    if sites is not None and (rejected := [name for name in own if name in reasons]):
        raise ValueError(
            f"EllipticalSlice needs sites with a Gaussian prior, but {rejected[0]} has none: {reasons[rejected[0]]}. "
            "Leave it to another kernel of Gibbs, such as NUTS(model)."
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
        reason = f" ({reasons[rest[0]]})" if rest[0] in reasons else ""
        raise ValueError(
            f"EllipticalSlice updates {', '.join(gaussian)}, but the model also has {', '.join(rest)}{reason}. Use "
            f"another kernel for the rest, with numpyro.infer.Gibbs: Gibbs([(EllipticalSlice(model), {gaussian}), "
            "(NUTS(model), None)])."
        )
    return own


def in_blocks(
    model: Callable[..., Any], model_args: tuple[Any, ...], model_kwargs: dict[str, Any], own: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    """Divide sites into blocks. Priors within a block do not depend on each other, only on earlier blocks."""
    upstream: Any = get_dependencies(model, model_args, model_kwargs)["prior_dependencies"]
    return consecutive_blocks(own, upstream)  # `own` is in the order of the model, as required

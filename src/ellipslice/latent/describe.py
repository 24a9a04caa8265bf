"""A model as text: response, terms, constraints and priors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.latent.definition import Definition
from ellipslice.latent.hyperpriors import describe_prior


def describe(own: Definition) -> str:
    """Return the text of `LatentGaussianModel.describe`."""
    family, missing = own.family, int((~own.observed).sum())
    to_predict = f", of which {missing} to predict" if missing else ""
    known = "".join(f", {name}: {_in_words(value)}" for name, value in _known_parts(own).items())
    lines = [f"{own.response_name}: {family.name}, {family.link} link, {len(own.y)} rows{to_predict}{known}."]
    lines += [term.describe() for term in own.predictor.terms]
    hyperparameters = own.posterior.hyperparameters
    for name in hyperparameters.family:
        prior = describe_prior(hyperparameters.parameters.priors[name])
        lines.append(f"{name}: {family.parameters[name].meaning}. Prior: {prior}.")
    return "\n".join(lines)


def _known_parts(own: Definition) -> dict[str, Any]:
    """Return known columns of the family, and the offset, by name, as the user gave them."""
    design, offset = own.predictor.design, own.predictor.offset_column
    if design is not None and design.formula.offsets:
        offset = " + ".join(each.expression.text for each in design.formula.offsets)
    return {**own.columns, **({} if offset is None else {"offset": offset})}


def _in_words(value: Any) -> str:
    """Return the name of a known column, or its value."""
    return value if isinstance(value, str) else f"{value:g}" if np.ndim(value) == 0 else "an array"

"""Terms as text: their structure, constraints and priors, and the error for improper priors."""

from __future__ import annotations

from typing import Any

from ellipslice.latent.hyperpriors import describe_prior
from ellipslice.latent.terms.columns import listed


def describe_term(term: Any) -> str:
    """Return the structure, constraints and priors of a term that has data."""
    structure = term.state.structure
    sentences = [f"{term.name}: {term.about}"]
    if structure.constraints:
        sentences.append(f"Constraint: {listed(structure.constraints)}")
    if structure.improper:
        sentences.append(f"The prior is flat in: {listed(structure.improper)}")
    sentences += [f"Prior of {term.name}_{name}: {describe_prior(prior)}" for name, prior in term.priors.items()]
    return ". ".join(sentences) + "."


def require_proper(term: Any) -> None:
    """Raise ValueError if the prior of a term is improper."""
    if len(term.improper):
        flat = ", ".join(term.state.structure.improper)
        raise ValueError(
            f"{term.name} has no prior predictive distribution, because its prior is flat in: {flat}. Use a proper "
            "term, or constrain these directions."
        )

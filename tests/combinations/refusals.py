"""The combinations of options that `sample` must reject, each with its message.

A row that meets none of these must run; a row that meets some must raise the message of one of them. So nothing is
rejected by accident, and a combination that starts to work must be removed from this list.
"""

from __future__ import annotations

from combinations.pairs import Refusal
from combinations.problems import LIKELIHOODS

BLOCKS = {
    *("CoordinateSlice", "CoordinateGibbs", "Local", "Local along lines", "Local at random", "Local by k-means"),
    "Cycle with Local",
}
"""Moves that need the conditional distribution of a block."""
LINES = {"LineSlice", "RandomWalk", "Local along lines"}
"""Moves that need the density of the prior along a line."""
HAMILTONIAN = {"Hamiltonian", "NUTS"}
SPLIT = {"SplitHamiltonian", "SplitHamiltonian around the prior"}
CONTROLS = {"ControlVariables", "ControlVariables at values"}
SEARCHES = {"default", "EllipticalSlice", "AuxiliaryEllipse"}
"""Moves that are a single search, which allows look-ahead and all chains in one loop."""

DRAWS_ONLY = {"FromDraws", "Stationary", "Sum"}
"""Priors without density, conditionals and inverse."""
ON_HOST = {"FromDraws", "SparsePrecision", "random walk"}
"""Priors from which compiled code cannot draw."""
KERNEL = {"Dense", "Dense with a mean", "Markov", "TruncatedGaussian"}
"""Priors with the kernel of `ControlVariables` at its inputs."""

AROUND_REFERENCE = {"ReferenceSlice", "SplitHamiltonian", "SplitHamiltonian around the prior"}
"""Moves that are not a single search, but run with all chains in one loop, on the engine batched."""
TOGETHER = {"batched", "fused"}
"""Engines that run all chains in one loop."""


def traced(likelihood: str) -> bool:
    return LIKELIHOODS[likelihood].traced


def on_host(engine: str, likelihood: str) -> bool:
    return engine == "host" or (engine == "chosen" and not traced(likelihood))


REFUSALS = [
    # The likelihood by itself, or with the prior.
    Refusal(r"returned an array of shape \(1,\)", lambda likelihood: likelihood == "shape (1,)"),
    Refusal("must be callable", lambda likelihood, prior: likelihood == "none" and prior != "TruncatedGaussian"),
    Refusal("takes one latent", lambda likelihood, prior: LIKELIHOODS[likelihood].own_class and prior == "Stack"),
    # Engines and precision.
    Refusal("the fused kernel", lambda engine: engine == "fused"),  # there is no GPU, or it does not run the move
    Refusal(
        "JAX cannot trace",
        lambda engine, likelihood: engine in ("compiled", *TOGETHER) and not traced(likelihood),
    ),
    Refusal("JAX cannot trace", lambda precision, likelihood: precision == "single" and not traced(likelihood)),
    Refusal("works in double", lambda precision, engine: precision == "single" and engine in ("host", "compiled")),
    Refusal(
        "not a single search",
        lambda engine, move: engine in TOGETHER and move not in (*SEARCHES, *AROUND_REFERENCE),
    ),
    Refusal(
        "not a single search",
        lambda precision, move: precision == "single" and move not in (*SEARCHES, *AROUND_REFERENCE),
    ),
    Refusal("draws on the host", lambda engine, prior: engine in TOGETHER and prior in ON_HOST),
    Refusal("draws on the host", lambda precision, prior: precision == "single" and prior in ON_HOST),
    Refusal(
        "not a single search", lambda engine, prior: engine in TOGETHER and prior == "TruncatedGaussian"
    ),  # its default move is ConstrainedSlice
    Refusal("not a single search", lambda precision, prior: precision == "single" and prior == "TruncatedGaussian"),
    Refusal("runs all chains in parallel", lambda engine, executor: engine in TOGETHER and executor != "none"),
    Refusal("runs all chains in parallel", lambda precision, executor: precision == "single" and executor != "none"),
    # Moves and priors.
    Refusal(
        "ignores the constraints",
        lambda move, prior: prior == "TruncatedGaussian" and move not in ("default", "ConstrainedSlice"),
    ),
    Refusal("a block given the rest", lambda move, prior: move in BLOCKS and prior in DRAWS_ONLY),
    Refusal("determined by the rest", lambda move, prior: move in BLOCKS and prior == "LowRank"),
    Refusal(
        "determined by the rest",
        lambda move, prior: move in ("CoordinateSlice", "CoordinateGibbs") and prior == "random walk",
    ),
    Refusal(
        "would never change 1 combination",
        lambda move, prior: move in ("Local", "Local along lines", "Local by k-means") and prior == "random walk",
    ),
    Refusal("density along a line", lambda move, prior: move in LINES - BLOCKS and prior in DRAWS_ONLY),
    Refusal("standard normals and back", lambda move, prior: move in HAMILTONIAN and prior in DRAWS_ONLY | ON_HOST),
    Refusal("needs the prior's covariance", lambda move, prior: move in CONTROLS and prior == "FromDraws"),
    Refusal(
        "that of the kernel at the inputs differ",
        lambda move, prior: move == "ControlVariables" and prior not in (*KERNEL, "FromDraws"),
    ),
    Refusal(
        "known only through its draws",
        lambda move, prior: move in ("ReferenceSlice", "SplitHamiltonian") and prior == "FromDraws",
    ),
    Refusal(
        "covariance of the prior in compiled code",
        lambda move, prior: move == "SplitHamiltonian around the prior" and prior == "FromDraws",
    ),
    # Moves and likelihoods.
    Refusal(
        "LinearPredictor",
        lambda move, likelihood: (
            likelihood == "LinearPredictor"
            and move in {*BLOCKS, *LINES, *HAMILTONIAN, "SplitHamiltonian around the prior"}
        ),
    ),
    Refusal(
        "reference for 4 (elements|standard normals)",
        lambda move, likelihood: move in ("ReferenceSlice", "SplitHamiltonian") and likelihood == "LinearPredictor",
    ),
    Refusal("needs gradients", lambda move, likelihood: move in HAMILTONIAN | SPLIT and not traced(likelihood)),
    Refusal("needs gradients", lambda move, engine: move in HAMILTONIAN | SPLIT and engine == "host"),
    # References.
    Refusal("uses its own move", lambda reference, move: reference != "none" and move != "default"),
    Refusal("without constraints", lambda reference, prior: reference != "none" and prior == "TruncatedGaussian"),
    Refusal("known only through its draws", lambda reference, prior: reference != "none" and prior == "FromDraws"),
    Refusal(
        "look_ahead=4 was given with reference=",
        lambda reference, look_ahead: reference != "none" and look_ahead == "4",
    ),
    Refusal(
        "is not traced",
        lambda reference, engine, likelihood: reference in ("laplace", "ep") and on_host(engine, likelihood),
    ),
    Refusal(
        "factorises over the elements of f",
        lambda reference, likelihood: reference in ("laplace", "ep") and likelihood == "jax with -inf",
    ),
    Refusal(  # these are parts of one vector
        "factorises over the elements of f.*slice",
        lambda reference, prior, likelihood: (
            reference in ("laplace", "ep") and prior == "Stack" and likelihood != "LinearPredictor"
        ),
    ),
    # Look-ahead.
    Refusal("not a single search", lambda look_ahead, move: look_ahead == "4" and move not in SEARCHES),
    Refusal("not a single search", lambda look_ahead, prior: look_ahead == "4" and prior == "TruncatedGaussian"),
    Refusal(
        "one latent vector at a time",
        lambda look_ahead, engine, likelihood, executor: (
            look_ahead == "4"
            and on_host(engine, likelihood)
            and executor == "none"
            and not LIKELIHOODS[likelihood].vectorized
            and not LIKELIHOODS[likelihood].own_class
        ),
    ),
    # A log-likelihood that is declared as log-concave.
    Refusal("has no gradients", lambda log_concave, engine: log_concave == "yes" and engine == "host"),
    Refusal("has no gradients", lambda log_concave, likelihood: log_concave == "yes" and not traced(likelihood)),
    Refusal(
        "not concave", lambda log_concave, likelihood: log_concave == "yes" and not LIKELIHOODS[likelihood].concave
    ),
    # What is kept, and how much.
    Refusal("compares chains, but chains=1", lambda until, chains: until == "R-hat" and chains == "one"),
    Refusal(
        "nothing to measure them on",
        lambda until, keep, likelihood: (
            until in ("effective sample size", "R-hat") and keep == "none" and likelihood == "none"
        ),
    ),
    Refusal("dims names '.*keep=False", lambda dims, keep: dims != "none" and keep == "none"),
]

"""Prior times likelihood: the one place that knows the mean, and the shapes the user sees."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from ellipslice.likelihoods import Likelihood, LinearPredictor
from ellipslice.likelihoods.linear_predictor import multiply_rows
from ellipslice.priors import Prior, TruncatedGaussian
from ellipslice.priors.base import Layout, in_precision_of, is_single, unpack
from ellipslice.priors.parts.augmented import PredictorPrior
from ellipslice.pytree import HostOnly, pytree, set_fields, static


@pytree
class CentredLikelihood:
    """The log-likelihood as a function of the flat, zero-mean vector that moves work with.

    "Gaussians with non-zero means can simply be shifted to have zero-mean with a change of variables" (Section 2). It
    is done here, so the ellipse everywhere below is the paper's f cos(theta) + nu sin(theta).
    """

    mean: Any
    data: Any
    """The user's callable if it is a pytree, as ours are; else None."""
    function: Callable[..., Any] | None = static()
    """The user's callable if it is any other Python object; else None."""
    layout: Layout = static()
    batches_only: bool = static()
    """The user's callable takes a batch of latents, and nothing else."""

    def __init__(self, log_likelihood: Callable[..., Any], prior: Prior, *, batches_only: bool = False):
        is_pytree = not jax.tree_util.all_leaves([log_likelihood])
        set_fields(
            self,
            mean=prior.mean,
            data=log_likelihood if is_pytree else None,
            function=None if is_pytree else log_likelihood,
            layout=prior.layout,
            batches_only=batches_only,
        )

    def __call__(self, f: Any) -> Any:
        """Value at one centred flat vector."""
        return self.batch(f.reshape(1, -1))[0] if self.batches_only else self.apply(self.callable, f)

    def batch(self, f: Any) -> Any:
        """Values at a batch of centred flat vectors, shape (batch, size); only if the user's callable takes batches."""
        return self.apply(self.callable, f)

    def with_function(self, function: Callable[..., Any]) -> CentredLikelihood:
        """The same, of another function of the latents."""
        other = copy.copy(self)
        set_fields(other, data=None, function=function)
        return other

    @property
    def callable(self) -> Callable[..., Any]:
        """What the user wrote."""
        return self.data if self.function is None else self.function

    def apply(self, function: Callable[..., Any], f: Any) -> Any:
        """Call any function of the latents (the likelihood, `keep`) with what the user should see."""
        latents = self.unpack(f)
        return function(latents["f"]) if self.single else function(**latents)

    def unpack(self, f: Any) -> dict[str, Any]:
        """The named latents, mean included, of a centred flat vector (or of a batch of them)."""
        return unpack(f, self.mean, self.layout)

    def pack(self, value: Any) -> np.ndarray:
        """The centred flat vector of one point as the user gives it: an array, or a mapping if latents have names."""
        latents = {"f": value} if self.single and not isinstance(value, Mapping) else value
        if not isinstance(latents, Mapping) or set(latents) != {name for name, _ in self.layout}:
            names = ", ".join(name for name, _ in self.layout)
            given = ", ".join(map(str, latents)) if isinstance(latents, Mapping) else f"a {type(latents).__name__}"
            raise ValueError(f"a point of this prior is a mapping with the names {names}, but {given} was given.")
        parts = []
        for name, shape in self.layout:
            part = np.asarray(latents[name], dtype=np.float64)
            if part.shape != shape:
                raise ValueError(f"{name} has shape {part.shape}; the prior says {shape}.")
            parts.append(part.ravel())
        f = np.concatenate(parts)
        return f if self.mean is None else f - self.mean

    @property
    def single(self) -> bool:
        """Whether there is one latent without a name of its own, handed to functions as their only argument."""
        return is_single(self.layout)

    @property
    def plain(self) -> bool:
        """Whether the user's callable takes the centred flat vector as it is."""
        return self.single and self.mean is None and len(self.layout[0][1]) == 1


@pytree
class PredictorLikelihood(CentredLikelihood):
    """The same for `LinearPredictor`: of x = [f, A f] the likelihood reads the predictor, and users see f."""

    shift: Any
    """A times the mean, shape (rows,); or None."""
    size: int = static()
    """Number of latent values, which come first."""

    columns: HostOnly
    """Matrices with the parts of f that they multiply: products are made on the host, before the run."""

    def __init__(self, linear: LinearPredictor, prior: Prior, *, batches_only: bool = False):
        super().__init__(linear.likelihood, prior, batches_only=batches_only)
        set_fields(self, columns=HostOnly(linear.columns(prior.layout)))
        set_fields(self, shift=None if prior.mean is None else self.product(prior.mean), size=prior.size)

    def product(self, f: Any) -> Any:
        """A times each of a batch of flat vectors."""
        return sum(multiply_rows(matrix, f[..., span]) for matrix, span in self.columns.value)

    def __call__(self, f: Any) -> Any:
        return self.batch(f.reshape(1, -1))[0] if self.batches_only else self.batch(f)

    def batch(self, f: Any) -> Any:
        predictor = f[..., self.size :]
        return self.callable(predictor if self.shift is None else predictor + in_precision_of(predictor, self.shift))

    def unpack(self, f: Any) -> dict[str, Any]:
        return unpack(f[..., : self.size], self.mean, self.layout)

    def pack(self, value: Any) -> np.ndarray:
        f = super().pack(value)
        return np.concatenate([f, self.product(f)])

    @property
    def plain(self) -> bool:
        return False


class Posterior:
    """N(f; mean, Sigma) L(f), equation (2) of the paper, up to its constant Z.

    Attributes
    ----------
    prior : Prior
    log_likelihood : CentredLikelihood
        Takes zero-mean flat vectors, as `prior.draw_zero_mean` makes them.
        (Those of a `LinearPredictor` likelihood have the predictor beside the latents, and `prior` draws it.)
    vectorized : bool
        Whether `log_likelihood.batch` may be called: said by the user, or by the likelihood's own `vectorized`.
    log_concave : bool
        Whether the log-likelihood is a concave function: said by the user, or by the likelihood's own `log_concave`.
    """

    def __init__(
        self,
        prior: Prior,
        log_likelihood: Callable[..., Any],
        *,
        vectorized: bool | None = None,
        log_concave: bool | None = None,
    ):
        if isinstance(log_likelihood, Prior):
            raise TypeError("the prior was given first. The order is sample(log_likelihood, prior).")
        if isinstance(prior, TruncatedGaussian):
            raise TypeError(
                "a TruncatedGaussian was given where only `sample` takes one. Use its Gaussian, prior.prior."
            )
        if not isinstance(prior, Prior):
            raise TypeError(
                f"prior must be one of ellipslice's priors, but it is a {type(prior).__name__}. For a covariance "
                "matrix use Dense(covariance); for several latents Stack({name: prior, ...}); for your own sampler "
                "FromDraws(sampler, size)."
            )
        if isinstance(log_likelihood, type) and issubclass(log_likelihood, Likelihood):
            name = log_likelihood.__name__
            raise TypeError(f"log_likelihood is the class {name}. Make an instance of it, with the data: {name}(y).")
        if not callable(log_likelihood):
            raise TypeError(f"log_likelihood must be callable, but it is a {type(log_likelihood).__name__}.")
        if jax.tree_util.all_leaves([prior]):
            raise TypeError(
                f"{type(prior).__name__} is a prior, but not a pytree. Decorate its class with "
                "ellipslice.pytree.pytree, and set its fields in __init__ with set_fields, as priors/diagonal.py does."
            )
        if isinstance(log_likelihood, Likelihood) and len(prior.layout) > 1:
            names = [name for name, _ in prior.layout]
            raise TypeError(
                f"{log_likelihood!r} takes one latent, but the prior has {', '.join(names)}. Say how they enter, such "
                f"as lambda {', '.join(names)}: likelihood({' + '.join(names)})."
            )
        linear = isinstance(log_likelihood, LinearPredictor)
        if not linear:
            check_signature("log_likelihood", log_likelihood, prior)
        takes_batches = bool(getattr(log_likelihood.likelihood if linear else log_likelihood, "vectorized", False))
        self.prior = prior
        known = isinstance(log_likelihood, Likelihood) and log_likelihood.log_concave
        self.log_concave = known if log_concave is None else bool(log_concave)
        self.vectorized = takes_batches if vectorized is None else bool(vectorized)
        batches_only = self.vectorized and not takes_batches
        if linear:
            self.log_likelihood = PredictorLikelihood(log_likelihood, prior, batches_only=batches_only)
            self.prior = PredictorPrior(prior, self.log_likelihood.product, log_likelihood.rows, log_likelihood.dense)
        else:
            self.log_likelihood = CentredLikelihood(log_likelihood, prior, batches_only=batches_only)

    def points(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Centred flat points to look at the log-likelihood from, or to start at: draws from the prior."""
        return np.asarray(self.prior.draw_zero_mean(rng, count))

    def probe_points(self, f: np.ndarray) -> None:
        """Take note of a centred flat point where the user starts: one near which `points` can be, if draws cannot."""


def check_signature(what: str, function: Callable[..., Any], prior: Prior) -> None:
    """Refuse a function that cannot be called with the prior's latents."""
    names = [name for name, _ in prior.layout]
    if is_single(prior.layout) or not callable(function):
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # some builtins do not say
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        raise TypeError(
            f"{what} is called with the prior's latents by name, {', '.join(names)}, and cannot be: {error}. Name its "
            f"arguments so: def log_likelihood({', '.join(names)})."
        ) from None


def as_log_likelihood(result: Any) -> float:
    """What a log-likelihood returned, as a float; refused if it is not one real number."""
    try:
        array = np.asarray(result)
    except (TypeError, ValueError):
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        what = f"complex numbers ({result})" if array.dtype.kind == "c" else f"a {type(result).__name__} ({result!r})"
        raise TypeError(f"log_likelihood must return one real number, but it returned {what}.")
    if array.shape != ():
        advice = "Did you forget to sum over the observations?" if array.size > 1 else "Return its one element."
        raise ValueError(
            f"log_likelihood must return one number, but it returned an array of shape {array.shape}. {advice} If it "
            "takes a batch of latents, say vectorized=True."
        )
    if array.dtype.kind == "b":
        raise TypeError(
            f"log_likelihood returned {result!r}, a bool. It must return the logarithm of the likelihood: 0.0 where a "
            "condition holds and -inf where it does not."
        )
    return float(array)


def explain(error: Exception, latents: dict[str, np.ndarray]) -> None:
    """Attach to an exception the latents at which the likelihood raised it."""
    with np.printoptions(threshold=8, edgeitems=3, precision=6):
        shown = ", ".join(f"{name} = {value}, shape {np.shape(value)}" for name, value in latents.items())
    note = f"raised by the log-likelihood at {shown}\n(the whole of it is in this exception's `latents`)"
    if "read-only" in str(error):
        note += "\nDoes it change its argument in place? Work on a copy: f = f.copy()."
    with contextlib.suppress(Exception):  # an exception may have no room for it
        error.add_note(note)
        error.latents = latents  # type: ignore[attr-defined]

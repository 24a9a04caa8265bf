"""The posterior: prior times likelihood.

Only this file adds the prior mean, and converts between the flat vectors of the sampler and the latents that users see.
"""

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
from ellipslice.pytree import HostOnly, pytree, renewed, set_fields, static


@pytree
class CentredLikelihood:
    """The log-likelihood as a function of the centred flat vector that moves use.

    "Gaussians with non-zero means can simply be shifted to have zero-mean with a change of variables" (Section 2). This
    class makes that change, so all other code uses the paper's ellipse f cos(theta) + nu sin(theta).
    """

    mean: Any
    """Prior mean, shape (size,); None if it is 0."""
    data: Any
    """The user's callable if it is a pytree, such as a class of `ellipslice.likelihoods`; otherwise None."""
    function: Callable[..., Any] | None = static()
    """The user's callable if it is any other Python object; otherwise None."""
    layout: Layout = static()
    """Names and shapes of the latents."""
    batches_only: bool = static()
    """True if the user's callable accepts only a batch of latents."""

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
        """Return the log-likelihood at one centred flat vector."""
        return self.batch(f.reshape(1, -1))[0] if self.batches_only else self.apply(self.callable, f)

    def batch(self, f: Any) -> Any:
        """Return the log-likelihoods at vectors of shape (batch, size). The user's callable must accept batches."""
        return self.apply(self.callable, f)

    def with_function(self, function: Callable[..., Any]) -> CentredLikelihood:
        """Return this object with another function of the latents as the user's callable."""
        other = copy.copy(self)
        set_fields(other, data=None, function=function)
        return other

    @property
    def callable(self) -> Callable[..., Any]:
        """The user's log-likelihood."""
        return self.data if self.function is None else self.function

    def apply(self, function: Callable[..., Any], f: Any) -> Any:
        """Call a function of the latents (the log-likelihood, or `keep`) with the latents of a centred flat vector."""
        latents = self.unpack(f)
        return function(latents["f"]) if self.single else function(**latents)

    def unpack(self, f: Any) -> dict[str, Any]:
        """Return the latents by name, including the mean, of a centred flat vector or of a batch of them."""
        return unpack(f, self.mean, self.layout)

    def pack(self, value: Any) -> np.ndarray:
        """Return the centred flat vector of a point: an array, or a mapping of names to arrays."""
        latents = {"f": value} if self.single and not isinstance(value, Mapping) else value
        if not isinstance(latents, Mapping) or set(latents) != {name for name, _ in self.layout}:
            names = ", ".join(name for name, _ in self.layout)
            given = ", ".join(map(str, latents)) if isinstance(latents, Mapping) else f"a {type(latents).__name__}"
            raise ValueError(f"a point of this prior must be a mapping with the names {names}, but {given} was given.")
        parts = []
        for name, shape in self.layout:
            part = np.asarray(latents[name], dtype=np.float64)
            if part.shape != shape:
                raise ValueError(f"{name} has shape {part.shape}, but in the prior it has shape {shape}.")
            parts.append(part.ravel())
        f = np.concatenate(parts)
        return f if self.mean is None else f - self.mean

    @property
    def single(self) -> bool:
        """True if there is one unnamed latent, which functions take as their only positional argument."""
        return is_single(self.layout)

    @property
    def plain(self) -> bool:
        """True if the user's callable takes the centred flat vector itself: the mean is 0, and f has one axis."""
        return self.single and self.mean is None and len(self.layout[0][1]) == 1


@pytree
class PredictorLikelihood(CentredLikelihood):
    """The log-likelihood of a `LinearPredictor`, as a function of x = [f, A f]. It depends only on A f; users see f."""

    shift: Any
    """A times the prior mean, shape (rows,); None if the mean is 0."""
    size: int = static()
    """Number of elements of f, which come first in x."""

    columns: HostOnly
    """Matrices with the slices of f that they multiply. Products are computed on the host, before the run."""

    def __init__(self, linear: LinearPredictor, prior: Prior, *, batches_only: bool = False):
        super().__init__(linear.likelihood, prior, batches_only=batches_only)
        set_fields(self, columns=HostOnly(linear.columns(prior.layout)))
        set_fields(self, shift=None if prior.mean is None else self.product(prior.mean), size=prior.size)

    def product(self, f: Any) -> Any:
        """Return A f for each flat vector of a batch, shape (..., rows)."""
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
    """The posterior N(f; mean, Sigma) L(f) / Z, equation (2) of the paper.

    Parameters
    ----------
    prior : Prior
    log_likelihood : callable
        Log-likelihood of the latents, as for `sample`.
    vectorized : bool, optional
        True if the log-likelihood accepts a batch of latents. Default: its attribute `vectorized`, or False.
    log_concave : bool, optional
        True if the log-likelihood is a concave function. Default: the attribute of a `Likelihood`, otherwise False.

    Attributes
    ----------
    given_prior, prior : Prior
        The prior as given, and that of the state: for a `LinearPredictor` the state is [f, A f].
    log_likelihood : CentredLikelihood
        Log-likelihood of centred flat vectors, as `prior.draw_zero_mean` returns them.
    vectorized : bool
        True if `log_likelihood.batch` may be called.
    log_concave : bool
        True if the log-likelihood is known to be a concave function.
    """

    def __init__(
        self,
        prior: Prior,
        log_likelihood: Callable[..., Any],
        *,
        vectorized: bool | None = None,
        log_concave: bool | None = None,
    ):
        _check_prior(prior, log_likelihood)
        _check_log_likelihood(log_likelihood, prior)
        takes_batches, known = _takes_batches(log_likelihood), isinstance(log_likelihood, Likelihood)
        self.log_concave = known and log_likelihood.log_concave if log_concave is None else bool(log_concave)
        self.vectorized = takes_batches if vectorized is None else bool(vectorized)
        batches_only = self.vectorized and not takes_batches
        self.given_prior = prior
        self.prior = prior = renewed(prior)
        if isinstance(log_likelihood, LinearPredictor):
            self.log_likelihood = PredictorLikelihood(log_likelihood, prior, batches_only=batches_only)
            self.prior = PredictorPrior(prior, self.log_likelihood.product, log_likelihood.rows, log_likelihood.dense)
        else:
            self.log_likelihood = CentredLikelihood(log_likelihood, prior, batches_only=batches_only)

    def points(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return centred flat points, shape (count, size), at which to evaluate the log-likelihood or to start.

        They are draws from the prior.
        """
        return np.asarray(self.prior.draw_zero_mean(rng, count))

    def probe_points(self, f: np.ndarray) -> None:
        """Make `points` start from the user's initial state f, if they are not draws. A Gaussian prior ignores it."""


def _check_prior(prior: Any, log_likelihood: Any) -> None:
    """Raise TypeError if `prior` is not a prior that a `Posterior` accepts, or if the arguments are swapped."""
    if isinstance(log_likelihood, Prior):
        raise TypeError("the prior was given first. The order is sample(log_likelihood, prior).")
    if isinstance(prior, TruncatedGaussian):
        raise TypeError("the prior is a TruncatedGaussian, which only `sample` accepts. Use its Gaussian, prior.prior.")
    if not isinstance(prior, Prior):
        raise TypeError(
            f"prior must be one of ellipslice's priors, but it is a {type(prior).__name__}. For a covariance "
            "matrix use Dense(covariance); for several latents Stack({name: prior, ...}); for your own sampler "
            "FromDraws(sampler, size)."
        )


def _check_log_likelihood(log_likelihood: Any, prior: Prior) -> None:
    """Raise TypeError if `log_likelihood` cannot be called with the latents of the prior, or either is not usable."""
    if isinstance(log_likelihood, type) and issubclass(log_likelihood, Likelihood):
        name = log_likelihood.__name__
        raise TypeError(f"log_likelihood is the class {name}. Give an instance with the data, {name}(y).")
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
            f"{log_likelihood!r} takes one latent, but the prior has {', '.join(names)}. Write a function that "
            f"combines them, for example lambda {', '.join(names)}: likelihood({' + '.join(names)})."
        )
    if not isinstance(log_likelihood, LinearPredictor):
        check_signature("log_likelihood", log_likelihood, prior)


def _takes_batches(log_likelihood: Any) -> bool:
    """Return whether a log-likelihood has the attribute `vectorized`, and it is true."""
    function = log_likelihood.likelihood if isinstance(log_likelihood, LinearPredictor) else log_likelihood
    return bool(getattr(function, "vectorized", False))


def check_signature(what: str, function: Callable[..., Any], prior: Prior) -> None:
    """Raise TypeError if a function cannot be called with the prior's latents. `what` is its name in the message."""
    names = [name for name, _ in prior.layout]
    if is_single(prior.layout) or not callable(function):
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # some builtin functions have no signature
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        raise TypeError(
            f"{what} is called with the prior's latents by name ({', '.join(names)}), but does not accept them: "
            f"{error}. Name its arguments like the latents: def {what}({', '.join(names)})."
        ) from None


def as_log_likelihood(result: Any) -> float:
    """Return the result of a log-likelihood as a float. Raise if it is not one real number."""
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
            "takes a batch of latents, use vectorized=True."
        )
    if array.dtype.kind == "b":
        raise TypeError(
            f"log_likelihood returned {result!r}, a bool. It must return the logarithm of the likelihood: 0.0 where a "
            "condition holds and -inf where it does not."
        )
    return float(array)


def add_latents_to_error(error: Exception, latents: dict[str, np.ndarray]) -> None:
    """Add the latents at which the log-likelihood raised an exception to it: a note, and the attribute `latents`."""
    with np.printoptions(threshold=8, edgeitems=3, precision=6):
        shown = ", ".join(f"{name} = {value}, shape {np.shape(value)}" for name, value in latents.items())
    note = f"raised by the log-likelihood at {shown}\n(the full arrays are in this exception's attribute `latents`)"
    if "read-only" in str(error):
        note += "\nDoes it change its argument in place? Change a copy instead: f = f.copy()."
    with contextlib.suppress(Exception):  # some exceptions do not accept attributes
        error.add_note(note)
        error.latents = latents  # type: ignore[attr-defined]

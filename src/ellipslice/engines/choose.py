"""A first look at a log-likelihood: does it return what it should, and which engine can run it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ellipslice.engines.compiled import compiled_evaluate
from ellipslice.engines.host import explain, one_by_one
from ellipslice.posterior import CentredLikelihood, Posterior


def first_value(posterior: Posterior, f: np.ndarray) -> float:
    """Call the log-likelihood once, as plain Python, and refuse what is not a log-likelihood."""
    centred = posterior.log_likelihood
    if centred.batches_only:
        _check_batches(centred, f)
    before = f.copy()
    result = _call(centred, f)
    if not np.array_equal(before, f):
        raise ValueError("log_likelihood changes its argument in place. Work on a copy: f = f.copy().")
    return _as_log_likelihood(result)


def choose_engine(
    posterior: Posterior, engine: str | None, f: np.ndarray, value: float
) -> tuple[str, str, Callable[[np.ndarray], float]]:
    """The engine's name, why, and its way to evaluate. `value` is what the function itself gives at `f`.

    A likelihood is compiled if JAX can trace it and what it traced agrees with the function. (It would not if the
    function caught the tracer's exception and returned something else, or drew random numbers.)
    """
    if engine not in (None, "compiled", "host"):
        raise ValueError(f'engine must be "compiled", "host" or None (look and choose), but it is {engine!r}.')
    if engine == "host":
        return "host", "asked for", one_by_one(posterior)
    evaluate = compiled_evaluate(posterior.log_likelihood)
    why_not = _why_not_compiled(posterior, evaluate, f, value)
    if why_not is None:
        return "compiled", "asked for" if engine else "JAX can trace the log-likelihood", evaluate
    if engine == "compiled":
        raise ValueError(
            f'engine="compiled" was asked for, but {why_not}. Write the log-likelihood with jax.numpy, or leave engine '
            "out: the host engine runs any Python."
        )
    return "host", why_not, one_by_one(posterior)


def _why_not_compiled(
    posterior: Posterior, evaluate: Callable[[np.ndarray], float], f: np.ndarray, value: float
) -> str | None:
    try:
        traced = evaluate(f)
    except Exception as error:  # noqa: BLE001  whatever a user's function raises when it meets a tracer
        first_line = (str(error).splitlines() or [""])[0][:120]
        return f"JAX cannot trace the log-likelihood ({type(error).__name__}: {first_line})"
    if not _agree(traced, value):
        return f"what JAX traced gives {traced:.6g} where the log-likelihood itself gives {value:.6g}"
    # A function that gave up when it met the tracer returned a constant, which may agree with it here by chance.
    points = np.asarray(posterior.prior.draw(np.random.default_rng(0), 24))
    if all(evaluate(point) == traced for point in points[:3]) and not all(
        _agree(traced, first_value(posterior, point)) for point in points
    ):
        return f"what JAX traced is {traced:.6g} everywhere, and the log-likelihood itself is not"
    return None


def _agree(traced: float, value: float) -> bool:
    return bool(np.isclose(traced, value, rtol=1e-4, atol=1e-4, equal_nan=True))


def _call(centred: CentredLikelihood, f: np.ndarray) -> Any:
    """The user's function at `f`: a NumPy array, or a JAX array for functions that only take those."""
    try:
        return centred(f)
    except Exception as error:  # noqa: BLE001  anything a user's function may raise
        try:
            return centred(jnp.asarray(f))
        except Exception:  # noqa: BLE001
            explain(error, centred.unpack(f))
            raise error from None


def _as_log_likelihood(result: Any) -> float:
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
    return float(array)


def _check_batches(centred: CentredLikelihood, f: np.ndarray) -> None:
    pair = np.stack([f, 0.5 * f])
    try:
        values = np.asarray(centred.batch(pair))
    except Exception as error:
        explain(error, centred.unpack(pair))
        error.add_note("(a batch of 2, because vectorized=True says that it takes one)")
        raise
    if values.shape != (2,):
        raise ValueError(
            f"with vectorized=True, log_likelihood must return one number for each latent of a batch; given 2 of them "
            f"it returned shape {values.shape}, not (2,). Sum over all axes but the first."
        )
    alone = np.asarray(centred.batch(pair[:1]))[0]
    if not np.isclose(values[0], alone, rtol=1e-6, atol=1e-6, equal_nan=True):
        raise ValueError(
            f"with vectorized=True, log_likelihood must treat the latents of a batch independently, but the first of 2 "
            f"got {values[0]:.8g} and alone it got {alone:.8g}."
        )

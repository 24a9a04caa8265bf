"""Injected bugs in the optional capabilities of a prior: `check_prior` detects each of them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from catalogue import CORRELATED, SEEDS, SINGULAR
from ellipslice.priors import Dense, Diagonal, Prior
from ellipslice.priors.parts.conditional import Regression, complement
from ellipslice.pytree import pytree, set_fields
from ellipslice.testing import check_prior

EVERY_SEED = pytest.mark.parametrize("seed", SEEDS)


def planted(name, mistake, covariance=CORRELATED):
    """Return a dense prior with one capability replaced. The bug gets the prior, the argument and the right result."""

    @pytree
    class Planted(Dense):
        def __init__(self):
            super().__init__(covariance)

    right = getattr(Dense, name)
    setattr(Planted, name, lambda self, argument: mistake(self, argument, right(self, argument)))
    return Planted()


WHITEN = {
    "the transposed solve": (lambda p, f, z: jnp.linalg.solve(p.rows[:, p.pivots], f[..., p.pivots].T).T, "invert"),
    "scaled": (lambda p, f, z: 1.001 * z, "invert"),
    "left as it is": (lambda p, f, z: f, "invert"),
    "by the covariance": (lambda p, f, z: jnp.linalg.solve(CORRELATED, f.T).T, "invert"),
    "in another order": (lambda p, f, z: z[..., ::-1], "invert"),
    "one value lost": (lambda p, f, z: z[..., :2], "expected"),
    "rows that know of each other": (lambda p, f, z: z + (0.1 * z[0] if z.ndim == 3 else 0.0), "leading axes"),
    "another result when compiled": (lambda p, f, z: z if isinstance(f, np.ndarray) else 2.0 * z, "compiled"),
}


@EVERY_SEED
@pytest.mark.parametrize("name", WHITEN)
def test_a_wrong_whiten_is_caught(name, seed):
    mistake, says = WHITEN[name]
    with pytest.raises(AssertionError, match=says):
        check_prior(planted("whiten", mistake), seed=seed)


@EVERY_SEED
def test_a_whiten_that_is_not_the_smallest_is_caught(seed):
    # Three normals for two elements: many z give the same f, and one of them is the shortest.
    @pytree
    class Wide(Prior):
        rows: object
        mean: object

        def __init__(self):
            set_fields(self, rows=np.array([[1.0, 0.0], [0.5, 2.0], [0.0, 1.0]]), mean=None)

        shape = (2,)
        noise_size = 3

        def unwhiten(self, z):
            return z @ self.rows

        def whiten(self, f):
            z = f @ jnp.linalg.inv(self.rows[:2])
            return jnp.concatenate([z, 0 * z[..., :1]], -1)

    with pytest.raises(AssertionError, match="smallest"):
        check_prior(Wide(), seed=seed)


SIZE = 3
LOG_DETERMINANT = np.linalg.slogdet(CORRELATED)[1]
LOG_DENSITY = {
    "no determinant": lambda p, f, value: value + 0.5 * LOG_DETERMINANT,
    "the determinant of the precision": lambda p, f, value: value + LOG_DETERMINANT,
    "no half": lambda p, f, value: 2 * value,
    "no constant": lambda p, f, value: value + 0.5 * SIZE * np.log(2 * np.pi),
    "the factor's determinant": lambda p, f, value: value + 0.25 * LOG_DETERMINANT,
    "the covariance for the precision": lambda p, f, value: (
        -0.5 * (jnp.sum(f * (f @ CORRELATED), -1) + LOG_DETERMINANT + SIZE * np.log(2 * np.pi))
    ),
    "off by a millionth": lambda p, f, value: value + 1e-6,
}


@EVERY_SEED
@pytest.mark.parametrize("name", LOG_DENSITY)
def test_a_wrong_log_density_is_caught(name, seed):
    with pytest.raises(AssertionError, match="log_density is not that of the covariance"):
        check_prior(planted("log_density", LOG_DENSITY[name]), seed=seed)


@EVERY_SEED
def test_log_densities_summed_over_a_batch_are_caught(seed):
    with pytest.raises(AssertionError, match="expected"):
        check_prior(planted("log_density", lambda p, f, value: jnp.sum(value)), seed=seed)


@EVERY_SEED
def test_mass_away_from_the_span_is_caught(seed):
    check_prior(planted("log_density", lambda p, f, value: value, SINGULAR), seed=seed)
    with pytest.raises(AssertionError, match="minus infinity"):
        check_prior(
            planted("log_density", lambda p, f, value: jnp.where(jnp.isfinite(value), value, -50.0), SINGULAR),
            seed=seed,
        )


def other(conditional, **fields):
    """Return the conditional with some fields replaced."""
    names = ("block", "others", "weights", "prior")
    return Regression(**{name: fields.get(name, getattr(conditional, name)) for name in names})


@pytree
class Leaking(Regression):
    """A conditional whose mean depends on the block itself."""

    def mean(self, f):
        return super().mean(f) + 0.1 * f[..., self.block]


def regressed_on_variances(prior, block, conditional):
    others = complement(conditional.block, prior.size)
    weights = CORRELATED[np.ix_(others, conditional.block)]
    return other(conditional, others=others, weights=weights)


CONDITION = {
    "the marginal covariance": (
        lambda p, block, c: other(c, prior=Dense(CORRELATED[np.ix_(c.block, c.block)])),
        "covariance",
    ),
    "the precision for the covariance": (
        lambda p, block, c: other(c, prior=Dense(np.linalg.inv(CORRELATED)[np.ix_(c.block, c.block)])),
        "covariance",
    ),
    "deviations for variances": (
        lambda p, block, c: other(c, prior=Diagonal(np.sqrt(np.sum(np.asarray(c.prior.rows) ** 2, axis=0)))),
        "covariance",
    ),
    "the sign of the mean": (lambda p, block, c: other(c, weights=-c.weights), "mean of condition"),
    "no mean": (lambda p, block, c: other(c, weights=0 * c.weights), "mean of condition"),
    "weights without the others' covariance": (regressed_on_variances, "mean of condition"),
    "the block not sorted": (lambda p, block, c: other(c, block=c.block[::-1].copy()), "sorted"),
    "the whole for the block": (lambda p, block, c: other(c, prior=Dense(CORRELATED)), "given the rest"),
    "a mean besides": (lambda p, block, c: other(c, prior=Diagonal(np.ones(len(c.block)), 1.0)), "has a mean"),
    "a mean that looks at the block": (
        lambda p, block, c: Leaking(c.block, c.others, c.weights, c.prior),
        "mean of condition|the block itself",
    ),
}


@pytest.mark.short_cases("the sign of the mean-0", "the marginal covariance-0")
@pytest.mark.long_cases("deviations for variances-0")
@EVERY_SEED
@pytest.mark.parametrize("name", CONDITION)
def test_a_wrong_conditional_is_caught(name, seed):
    mistake, says = CONDITION[name]
    with pytest.raises(AssertionError, match=says):
        check_prior(planted("condition", mistake), seed=seed)


@pytest.mark.parametrize("name", ["whiten", "log_density", "condition"])
def test_an_unplanted_ability_passes(name):
    check_prior(planted(name, lambda p, argument, right: right))


# --- missing capabilities ---------------------------------------------------------------------------------------------


def test_a_missing_ability_must_say_what_to_use():
    @pytree
    class Silent(Diagonal):
        instead = "sorry."

        @property
        def capabilities(self):
            return frozenset({"log_density", "condition"})

        def whiten(self, f):
            raise self._missing_capability("whiten")

    with pytest.raises(AssertionError, match="names no alternative"):
        check_prior(Silent(np.ones(3)))


def test_an_ability_that_is_denied_must_not_work():
    @pytree
    class Modest(Diagonal):
        @property
        def capabilities(self):
            return frozenset({"log_density", "condition"})

    with pytest.raises(AssertionError, match="did not raise"):
        check_prior(Modest(np.ones(3)))

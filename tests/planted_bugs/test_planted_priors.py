"""Injected bugs in priors: `check_prior` detects each of them. Its limits are stated."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

from catalogue import CORRELATED, SEEDS
from ellipslice.priors import Dense, Diagonal, FromDraws, LowRank
from ellipslice.pytree import pytree, set_fields
from ellipslice.testing import check_prior

EVERY_SEED = pytest.mark.parametrize("seed", SEEDS)
LOWER = np.linalg.cholesky(CORRELATED)


@pytree
class Planted(Dense):
    """A right prior, into which bugs are injected."""

    def __init__(self, **fields):
        super().__init__(CORRELATED, mean=1.0)
        set_fields(self, **fields)


@EVERY_SEED
def test_the_unplanted_prior_passes(seed):
    check_prior(Planted(), seed=seed)
    check_prior(Planted(), covariance=CORRELATED, seed=seed)
    check_prior(Dense(factor=LOWER), covariance=CORRELATED, seed=seed)


# --- the covariance -------------------------------------------------------------------------------------------------


@EVERY_SEED
@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Dense(factor=LOWER.T),  # L.T instead of L: qslice and others
        lambda: Dense(factor=CORRELATED),  # the covariance used as a factor
        lambda: Dense(CORRELATED @ CORRELATED),
        lambda: Dense(np.linalg.inv(CORRELATED)),  # the precision
        lambda: Dense(1.01 * CORRELATED),  # off by 1 %
        lambda: Dense(CORRELATED + 1e-6 * np.eye(3)),  # a jitter
        lambda: Dense(np.diag(CORRELATED.diagonal())),  # correlations lost
        lambda: LowRank(LOWER[:, :2]),  # one column too few
        lambda: Planted(rows=LOWER),  # rows are the transpose of a factor
    ],
)
@pytest.mark.filterwarnings("ignore:factor is upper triangular")
def test_a_wrong_covariance_is_caught_by_the_one_given(wrong, seed):
    with pytest.raises(AssertionError, match="not the given covariance"):
        check_prior(wrong(), covariance=CORRELATED, seed=seed)


def test_deviations_for_variances_are_caught():
    with pytest.raises(AssertionError, match="not the given covariance"):
        check_prior(Diagonal([2.0, 3.0]), covariance=np.diag([4.0, 9.0]))


# --- draws compared with unwhiten -----------------------------------------------------------------------------------


def drawing(draw):
    """Return a prior whose `draw_zero_mean` is replaced. The replacement gets the right draws and rng."""

    @pytree
    class Drawing(Planted):
        def draw_zero_mean(self, rng, count):
            return draw(np.asarray(super().draw_zero_mean(rng, count)), rng)

    return Drawing()


def permuted(draws, rng):
    return draws[:, ::-1]


DRAWS = {
    "shifted by its mean": (lambda draws, rng: draws + 1.0, "mean zero"),
    "30 % too wide": (lambda draws, rng: 1.3 * draws, "expected covariance"),
    "30 % too narrow": (lambda draws, rng: draws / 1.3, "expected covariance"),
    "without correlations": (
        lambda draws, rng: rng.standard_normal(draws.shape) * np.sqrt(CORRELATED.diagonal()),
        "expected covariance",
    ),
    "in another order": (permuted, "expected covariance"),
    "not Gaussian": (
        lambda draws, rng: (rng.standard_exponential(draws.shape) - 1) * np.sqrt(CORRELATED.diagonal()),
        "Gaussian|expected covariance|mean zero",
    ),
    "the rng ignored": (
        lambda draws, rng: np.random.default_rng().standard_normal(draws.shape),
        "function of its generator",
    ),
    "one draw too few": (lambda draws, rng: draws[1:], "shape"),
    "not finite": (lambda draws, rng: np.where(draws == draws.max(), np.inf, draws), "finite"),
    "the same draw again and again": (lambda draws, rng: np.tile(draws[:1], (len(draws), 1)), "."),
    "constant": (lambda draws, rng: np.zeros_like(draws), "expected covariance"),
}


@EVERY_SEED
@pytest.mark.parametrize("name", DRAWS)
def test_wrong_draws_are_caught(name, seed):
    draw, says = DRAWS[name]
    with pytest.raises(AssertionError, match=says):
        check_prior(drawing(draw), seed=seed)


def test_the_generator_may_not_be_shared():
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `FromDraws` warns itself
        prior = FromDraws(lambda _: rng.standard_normal(3), 3)
    with pytest.raises(AssertionError, match="function of its generator"):
        check_prior(prior)


ROUTINES = {
    "not centred": (lambda rng: rng.standard_normal(4) + 0.3, "mean zero"),
    "not Gaussian": (lambda rng: rng.standard_exponential(4) - 1, "Gaussian|mean zero"),
    "heavy tails": (lambda rng: rng.standard_t(2, 4), "Gaussian|mean zero"),
    "a mixture": (lambda rng: rng.standard_normal(4) * rng.choice([0.3, 3.0]), "Gaussian"),
    "signs": (lambda rng: rng.choice([-1.0, 1.0], 4), "Gaussian"),
}


@EVERY_SEED
@pytest.mark.parametrize("name", ROUTINES)
def test_a_routine_that_is_not_a_gaussian_is_caught(name, seed):
    routine, says = ROUTINES[name]
    check_prior(FromDraws(lambda rng: rng.standard_normal(4), 4), seed=seed)
    with pytest.raises(AssertionError, match=says):
        check_prior(FromDraws(routine, 4), seed=seed)


@EVERY_SEED
def test_what_two_thousand_draws_can_tell(seed):
    # `draw_zero_mean` and `unwhiten` are compared by the variance of 2,000 draws, whose relative standard error is
    # sqrt(2 / 2000) = 3.2 %. The level of 1e-6 corresponds to 4.9 of them. So an error of the variance of 16 % is
    # detected every other time, one of 35 % always, and one of 1 % never. For these there is the argument `covariance`,
    # which is compared up to rounding error.
    threshold = stats.norm.isf(0.5e-6) * np.sqrt(2 / 2000)
    assert 0.15 < threshold < 0.16
    check_prior(drawing(lambda draws, rng: np.sqrt(1.01) * draws), seed=seed)
    with pytest.raises(AssertionError, match="expected covariance"):
        check_prior(drawing(lambda draws, rng: np.sqrt(1.35) * draws), seed=seed)


# --- unwhiten -------------------------------------------------------------------------------------------------------


def coloring(color):
    """Return a prior with another `unwhiten`, which gets z and the right result."""

    @pytree
    class Coloring(Planted):
        def unwhiten(self, z):
            return color(z, super().unwhiten(z))

    return Coloring()


COLORS = {
    "a square": (lambda z, f: f + 0.1 * f**2, "not linear"),
    "a constant": (lambda z, f: f + 1.0, "not linear|0 to 0"),
    "a small kink": (lambda z, f: f + 1e-6 * abs(f), "not linear"),
    "rows that know of each other": (lambda z, f: f - 0.1 * f.mean(axis=0), "batch|several leading axes"),
    "the first axis only": (lambda z, f: f[:, ::-1] if f.ndim == 2 else f, "batch|several leading axes"),
    "an axis added": (lambda z, f: f[..., None], "expected"),
    "one value lost": (lambda z, f: f[..., :2], "expected"),
    "another result when compiled": (lambda z, f: f if isinstance(z, np.ndarray) else 2.0 * f, "compiled"),
}


@EVERY_SEED
@pytest.mark.parametrize("name", COLORS)
def test_a_wrong_unwhiten_is_caught(name, seed):
    color, says = COLORS[name]
    with pytest.raises(AssertionError, match=says):
        check_prior(coloring(color), seed=seed)


@pytree
class OtherFactor(Planted):
    def device_factor(self):
        return LOWER  # the transpose


@pytree
class NotLinear(Planted):
    linear = False


@pytest.mark.parametrize(("prior", "says"), [(OtherFactor, "device_factor"), (NotLinear, "`linear` is False")])
def test_what_a_prior_says_of_its_unwhiten_is_checked(prior, says):
    with pytest.raises(AssertionError, match=says):
        check_prior(prior())


# --- shapes and the mean --------------------------------------------------------------------------------------------


def with_layout(layout):
    @pytree
    class Other(Planted):
        @property
        def layout(self):
            return layout

    return Other()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Planted(mean=np.ones(2)), "mean has shape"),
        (lambda: Planted(mean=np.ones((3, 1))), "mean has shape"),
        (lambda: Planted(mean=np.array([1.0, np.nan, 0.0])), "mean is not finite"),
        (lambda: Planted(shape=(4,)), r"\(3, 4\)|expected"),
        (lambda: with_layout((("f", (2,)),)), "layout"),
        (lambda: with_layout((("f", (3,)), ("b", ()))), "layout"),
    ],
)
def test_shapes_that_do_not_fit_are_caught(make, says):
    with pytest.raises(AssertionError, match=says):
        check_prior(make())


def test_data_outside_the_pytree_are_caught():
    # A field that is not part of the pytree is lost when the prior is flattened.
    class Hidden(Planted):
        def __init__(self):
            super().__init__()
            object.__setattr__(self, "factor", 2.0)

        def unwhiten(self, z):
            return getattr(self, "factor", 1.0) * super().unwhiten(z)

    with pytest.raises(AssertionError, match=r"compiled|pytree"):
        check_prior(pytree(Hidden)())

"""Our kernel inside NumPyro: known posteriors, Gaussian distributions, Gibbs with NUTS, injected bugs, errors."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import tinygp
from numpyro.infer import MCMC, NUTS, Gibbs, HMCGibbs
from scipy import stats

from catalogue import CORRELATED
from ellipslice.interop.numpyro import EllipticalSlice, gaussian_sites
from ellipslice.interop.numpyro_sites import GAUSSIAN
from statistical.monte_carlo import LIMIT, SEED, compare, compare_gaussian
from statistical.test_closed_form import posterior

Y = np.array([-1.0, 0.5, 1.5])
SIGMA = 0.5
C = np.asarray(CORRELATED, np.float32)


def run(kernel, *args, draws=3000, warmup=200, chains=4, number=0, method="vectorized", fields=(), **options):
    mcmc = MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=draws,
        num_chains=chains,
        chain_method=method,
        progress_bar=False,
        **options,
    )
    mcmc.run(jax.random.key(SEED + number), *args, extra_fields=fields)
    samples = {name: np.asarray(part, float) for name, part in mcmc.get_samples(group_by_chain=True).items()}
    return samples, mcmc.get_extra_fields(group_by_chain=True)


# --- known posteriors -----------------------------------------------------------------------------------------------


def plated():
    with numpyro.plate("places", 3):
        return numpyro.sample("f", dist.Normal(0.5, 2.0))


MODELS = {
    "covariance": (lambda: numpyro.sample("f", dist.MultivariateNormal(0.5, C)), CORRELATED),
    "plate": (plated, 4.0 * np.eye(3)),
    "tinygp": (
        lambda: numpyro.sample(
            "f",
            tinygp.GaussianProcess(
                2.0 * tinygp.kernels.Matern32(1.5), jnp.arange(3.0), mean=0.5, diag=0.1
            ).numpyro_dist(),
        ),
        2.0 * np.asarray(tinygp.kernels.Matern32(1.5)(jnp.arange(3.0), jnp.arange(3.0))) + 0.1 * np.eye(3),
    ),
}


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore:Please use numpyro.util.is_prng_key")  # a warning of tinygp
@pytest.mark.parametrize("name", MODELS)
def test_known_posteriors(name):
    prior, covariance = MODELS[name]

    def model(y):
        f = prior()
        numpyro.deterministic("double", 2 * f)
        numpyro.sample("y", dist.Normal(f, SIGMA), obs=y)

    samples, fields = run(
        EllipticalSlice(model), Y, fields=("evaluations", "search_failed", "angle", "total_log_likelihood")
    )
    compare_gaussian(samples["f"], *posterior(covariance, Y, SIGMA, 0.5), name)
    np.testing.assert_allclose(samples["double"], 2 * samples["f"], rtol=1e-6)
    assert fields["evaluations"].shape == (4, 3000)
    assert fields["evaluations"].min() >= 1
    assert not fields["search_failed"].any()
    expected = stats.norm(Y, SIGMA).logpdf(samples["f"]).sum(axis=-1)
    np.testing.assert_allclose(fields["total_log_likelihood"], expected, atol=1e-3)


@pytest.mark.long
@pytest.mark.statistical
def test_a_prior_that_depends_on_another_site_of_ours():
    """The mean of b is a, so the two are updated in turn, and the joint posterior is Gaussian."""

    def model(y):
        a = numpyro.sample("a", dist.Normal(1.0, 1.0))
        b = numpyro.sample("b", dist.Normal(a, 0.7))
        c = numpyro.sample("c", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(jnp.stack([b, a + c]), SIGMA), obs=y)

    kernel = EllipticalSlice(model)
    samples, _ = run(kernel, np.array([2.0, 0.5]), draws=4000, number=1)
    assert kernel._blocks == (("a", "c"), ("b",))
    prior = np.array([[1.0, 1.0, 0.0], [1.0, 1.49, 0.0], [0.0, 0.0, 1.0]])
    mean, covariance = posterior(prior, [2.0, 0.5], SIGMA, [1.0, 1.0, 0.0], rows=[[0, 1, 0], [1, 0, 1]])
    compare_gaussian(np.stack([samples[name] for name in "abc"], axis=-1), mean, covariance, "a chain of sites")


def scaled(y):
    scale = numpyro.sample("scale", dist.HalfNormal(2.0))
    f = numpyro.sample("f", dist.MultivariateNormal(0.5 * scale, scale * C))
    numpyro.sample("y", dist.Normal(f, SIGMA * jnp.sqrt(scale)), obs=y)


@cache
def known_scale():
    """Return the posterior means of `scale` and of f, by quadrature over the scale."""
    scale = np.linspace(1e-3, 12, 800)
    log_p = np.array(
        [
            stats.multivariate_normal.logpdf(Y, np.full(3, 0.5 * s), s * (CORRELATED + SIGMA**2 * np.eye(3)))
            for s in scale
        ]
    ) + stats.halfnorm(scale=2.0).logpdf(scale)
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    means = np.array([posterior(s * CORRELATED, Y, SIGMA * s**0.5, 0.5 * s)[0] for s in scale])
    return weight @ scale, weight @ means


def with_nuts(kernel):
    return Gibbs([(kernel, gaussian_sites), (NUTS(scaled), None)])


def compare_scaled(samples, what):
    scale, f = known_scale()
    compare(samples["scale"], scale, f"{what}, scale")
    compare(samples["f"], f, f"{what}, f")


def run_with_nuts(kernel):
    """Return draws, and the log-likelihood from which each update starts."""
    field = "block_states.0.total_log_likelihood"
    samples, fields = run(with_nuts(kernel), Y, draws=6000, chains=1, method="sequential", number=2, fields=[field])
    return samples, np.asarray(fields[field])


@pytest.mark.long
@pytest.mark.statistical
def test_mean_covariance_and_likelihood_follow_another_site():
    samples, value = run_with_nuts(EllipticalSlice(scaled))
    compare_scaled(samples, "Gibbs")
    noise = SIGMA * np.sqrt(samples["scale"])[..., None]
    right = stats.norm(samples["f"], noise).logpdf(Y).sum(-1) + stats.halfnorm(scale=2.0).logpdf(samples["scale"])
    np.testing.assert_allclose(value, right, atol=1e-3)  # and not that of the previous scale


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")  # NUTS alone warns as well, under vmap
@pytest.mark.statistical
def test_as_the_function_of_hmc_gibbs_in_chains_by_vmap():
    kernel = HMCGibbs(NUTS(scaled), EllipticalSlice(scaled).gibbs_fn((Y,)), gibbs_sites=["f"])
    compare_scaled(run(kernel, Y, method=jax.vmap, chains=2, number=3)[0], "HMCGibbs")


# --- every Gaussian of NumPyro --------------------------------------------------------------------------------------

GAUSSIANS = {
    "Normal": lambda: dist.Normal(jnp.arange(3.0), 2.0),
    "Normal, expanded": lambda: dist.Normal(1.0, 2.0).expand([2, 2]).to_event(1),
    "MultivariateNormal, covariance": lambda: dist.MultivariateNormal(jnp.arange(3.0), covariance_matrix=C),
    "MultivariateNormal, precision": lambda: dist.MultivariateNormal(jnp.arange(3.0), precision_matrix=C),
    "MultivariateNormal, factor": lambda: dist.MultivariateNormal(jnp.arange(3.0), scale_tril=jnp.linalg.cholesky(C)),
    "LowRankMultivariateNormal": lambda: dist.LowRankMultivariateNormal(
        jnp.arange(3.0), jnp.array([[1.0], [0.5], [-1.0]]), jnp.array([0.3, 0.2, 0.1])
    ),
    "MatrixNormal": lambda: dist.MatrixNormal(
        jnp.ones((2, 3)), jnp.array([[1.0, 0.0], [0.5, 1.0]]), jnp.linalg.cholesky(C)
    ),
    "GaussianRandomWalk": lambda: dist.GaussianRandomWalk(0.7, 4),
    "GaussianStateSpace": lambda: dist.GaussianStateSpace(3, 0.5 * jnp.eye(1), covariance_matrix=jnp.eye(1)),
    "CirculantNormal": lambda: dist.CirculantNormal(jnp.arange(4.0), covariance_row=jnp.array([2.0, 0.5, 0.2, 0.5])),
    "CAR": lambda: dist.CAR(jnp.arange(3.0), 0.5, 2.0, jnp.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])),
}


@pytest.mark.long
def test_every_gaussian_is_looked_at():
    bases = set()
    for make in GAUSSIANS.values():
        prior = make()
        while isinstance(prior, dist.Independent | dist.ExpandedDistribution):
            prior = prior.base_dist
        bases.add(type(prior))
    assert bases == set(GAUSSIAN) - {dist.ZeroSumNormal}


@pytest.mark.short_cases("Normal", "MultivariateNormal, covariance", "CAR")
@pytest.mark.statistical
@pytest.mark.parametrize("name", GAUSSIANS)
def test_its_mean_and_draws_are_those_of_its_density(name):
    """The log density is quadratic about `mean`, and draws have the covariance that it implies."""
    prior = GAUSSIANS[name]()
    size = int(np.prod(prior.shape()))
    mean = np.broadcast_to(prior.mean, prior.shape()).ravel()
    axes = np.eye(size)
    pairs = (axes[:, None] + axes).reshape(-1, size)
    points = np.concatenate([np.zeros((1, size)), axes, -axes, 2 * axes, pairs])
    values = jax.jit(jax.vmap(lambda x: jnp.sum(prior.log_prob(x.reshape(prior.shape())))))(mean + points)
    top, up, down, twice, both = np.split(np.asarray(values, float), np.cumsum([1, size, size, size]))
    np.testing.assert_allclose(up, down, atol=1e-3)  # symmetric about the mean
    np.testing.assert_allclose(twice - top, 4 * (up - top), atol=1e-2)  # and quadratic
    covariance = -np.linalg.inv(both.reshape(size, size) - up[:, None] - up + top)
    draws = np.asarray(prior.sample(jax.random.key(SEED), (20000,)), float).reshape(-1, size) - np.asarray(mean, float)
    products = draws[:, :, None] * draws[:, None, :]
    z = (products.mean(0) - covariance) / (products.std(0) / np.sqrt(len(draws)))
    assert np.abs(z).max() < LIMIT
    assert np.abs(draws.mean(0) / (draws.std(0) / np.sqrt(len(draws)))).max() < LIMIT


@pytest.mark.long
@pytest.mark.statistical
def test_a_zero_sum_normal_stays_in_its_plane():
    def model(y):
        f = numpyro.sample("f", dist.ZeroSumNormal(2.0, (3,)))
        numpyro.sample("y", dist.Normal(f, SIGMA), obs=y)

    samples, _ = run(EllipticalSlice(model), Y, number=4)
    np.testing.assert_allclose(samples["f"].sum(-1), 0.0, atol=1e-4)
    compare_gaussian(samples["f"], *posterior(4.0 * (np.eye(3) - 1 / 3), Y, SIGMA), "zero sum")


# --- ways to run it -------------------------------------------------------------------------------------------------


def simple(y):
    f = numpyro.sample("f", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(f, SIGMA), obs=y)


@pytest.mark.long
@pytest.mark.statistical
def test_chains_one_after_the_other_and_thinned():
    kernel = EllipticalSlice(simple, sites=["f"])
    samples, _ = run(kernel, jnp.array(1.0), chains=2, number=5, method="sequential", thinning=2)
    compare_gaussian(samples["f"][..., None], np.array([0.8]), np.array([[0.2]]), "sequential")


@pytest.mark.long
def test_several_updates_are_one_after_the_other():
    states = []
    for updates, times in ((1, 3), (3, 1)):
        kernel = EllipticalSlice(simple, updates_per_draw=updates)
        state = kernel.init(jax.random.key(3), 0, {"f": 0.2}, (1.0,))
        tried = 0
        for _ in range(times):
            state = kernel.sample(state, (1.0,), {})
            tried += int(state.evaluations)
        states.append((float(state.z["f"]), tried))
    np.testing.assert_allclose(states[0], states[1], rtol=1e-5)
    with pytest.raises(ValueError, match="updates_per_draw must be a whole number"):
        EllipticalSlice(simple, updates_per_draw=0)


def test_a_start_of_ones_own_and_progress():
    mcmc = MCMC(EllipticalSlice(simple), num_warmup=0, num_samples=3, progress_bar=True)
    mcmc.run(jax.random.key(0), 1.0, init_params={"f": 0.7})
    assert mcmc.get_samples()["f"].shape == (3,)
    assert "evaluations" in mcmc.sampler.get_diagnostics_str(mcmc.last_state)


@pytest.mark.long
def test_other_data_with_the_same_compiled_loop():
    """With jit_model_args the compiled program must not contain the data of the first run."""
    mcmc = MCMC(EllipticalSlice(simple), num_warmup=50, num_samples=500, progress_bar=False, jit_model_args=True)
    means = []
    for y in (5.0, -5.0):
        mcmc.run(jax.random.key(1), jnp.array(y))
        means.append(float(mcmc.get_samples()["f"].mean()))
    assert means[0] > 3 > -3 > means[1]


# --- planted mistakes -----------------------------------------------------------------------------------------------


class CountsThePriorTwice(EllipticalSlice):
    def _log_likelihood(self, block, z, args, kwargs):
        return super()._log_likelihood((), z, args, kwargs)


class KeepsItsFirstCovariance(EllipticalSlice):
    def _move(self, key, block, z, value, args, kwargs):
        kwargs = {**kwargs, "_gibbs_sites": {"scale": jnp.ones(())}} if kwargs else kwargs
        return super()._move(key, block, z, value, args, kwargs)


@pytest.mark.long
@pytest.mark.statistical
def test_a_prior_counted_twice_is_caught():
    samples, _ = run(CountsThePriorTwice(simple), 1.0, number=6)
    with pytest.raises(AssertionError, match="standard errors off"):
        compare_gaussian(samples["f"][..., None], np.array([0.8]), np.array([[0.2]]), "twice")
    compare_gaussian(samples["f"][..., None], np.array([2 / 3]), np.array([[1 / 6]]), "the answer to another question")


@pytest.mark.long
@pytest.mark.statistical
def test_what_does_not_follow_other_sites_is_caught():
    samples, _ = run_with_nuts(KeepsItsFirstCovariance(scaled))
    with pytest.raises(AssertionError, match="standard errors off"):
        compare_scaled(samples, "planted")


# --- what is refused ------------------------------------------------------------------------------------------------


def start(kernel, *args):
    return MCMC(kernel, num_warmup=1, num_samples=2, progress_bar=False).run(jax.random.key(0), *args)


def weighted():
    with numpyro.handlers.scale(scale=2.0):
        numpyro.sample("f", dist.Normal(0.0, 1.0))


def positive():
    numpyro.sample("f", dist.LogNormal(0.0, 1.0))


def masked():
    with numpyro.handlers.mask(mask=False):
        numpyro.sample("f", dist.Normal(0.0, 1.0))


def subsampled():
    with numpyro.plate("rows", 10, subsample_size=5):
        numpyro.sample("f", dist.Normal(0.0, 1.0))


def impossible():
    numpyro.factor("never", jnp.where(numpyro.sample("f", dist.Normal(0.0, 1.0)) > -jnp.inf, -jnp.inf, 0.0))


@pytest.mark.long_cases("<lambda>-ValueError-subsampled plates")
@pytest.mark.parametrize(
    ("begin", "error", "says"),
    [
        (lambda: start(EllipticalSlice(scaled), Y), ValueError, r"also has scale.*HalfNormal.*Gibbs\("),
        (lambda: start(EllipticalSlice(scaled, sites=["scale"]), Y), ValueError, "scale has none: its prior is a Half"),
        (lambda: start(EllipticalSlice(scaled, sites=["g"]), Y), ValueError, "g: no such latent site.*scale, f"),
        (lambda: start(EllipticalSlice(weighted)), ValueError, "scaled"),
        (lambda: start(EllipticalSlice(subsampled)), ValueError, "subsampled plates"),
        (lambda: start(EllipticalSlice(lambda: None)), ValueError, "nothing to update"),
        (lambda: start(EllipticalSlice(positive)), ValueError, r"^no latent site.*f, its prior is a LogNormal.*NUTS\("),
        (
            lambda: start(EllipticalSlice(weighted)),
            ValueError,
            "^no latent site of the model has .*log density is scaled",
        ),
        (lambda: start(EllipticalSlice(masked)), ValueError, "^no latent site of the model has .*MaskedDistribution"),
        (lambda: start(EllipticalSlice(positive, [])), ValueError, "sites is empty. Expected names of latent sites"),
        (lambda: start(EllipticalSlice(impossible)), ValueError, "not finite at any of 100 draws.*init_params"),
        (lambda: EllipticalSlice(scaled, sites="f"), TypeError, r"sites=\['f'\]"),
        (lambda: EllipticalSlice(None), TypeError, "function with NumPyro's primitives"),
    ],
)
def test_what_cannot_be_sampled_is_refused(begin, error, says):
    with pytest.raises(error, match=says):
        begin()

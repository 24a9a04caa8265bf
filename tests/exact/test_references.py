"""Reference Gaussians, how they are fitted, and the move around them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import ellipslice as es
import ellipslice.approximations.pilot as pilot_module
from ellipslice.approximations import fit_reference
from ellipslice.approximations.expectation_propagation import fit_ep
from ellipslice.approximations.fit import factorise_likelihood
from ellipslice.approximations.gaussian import WhiteGaussian
from ellipslice.approximations.laplace import fit_laplace
from ellipslice.approximations.sites import SitesReference, covariance_factor
from ellipslice.diagnostics import effective_sample_size
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.engines.host.engine import HostTarget
from ellipslice.jax_settings import on_cpu
from ellipslice.likelihoods import Gaussian, LinearPredictor, Logistic, Poisson, StudentT
from ellipslice.moves import ReferenceSlice, State
from ellipslice.noise import UpdateNoise, block_length, draw_block
from ellipslice.posterior import Posterior
from ellipslice.sampling.choose_reference_move import independence_acceptance

RNG = np.random.default_rng(3)
SIGMA = np.cov(RNG.standard_normal((4, 9))) + 0.2 * np.eye(4)
PRIOR = es.Dense(SIGMA)
SITES = SitesReference(np.array([1.0, -2.0, 0.5, 0.0]), np.array([0.5, 3.0, 0.0, 8.0]))
WHITE = WhiteGaussian(np.array([0.3, -0.2, 0.5, 0.1]), np.diag([0.5, 1.5, 0.2, 0.9]) + 0.05)
COUNTS = np.array([3.0, 0.0, 1.0, 7.0])


def gaussian_of(reference):
    """Return the mean and covariance of a reference, by formulas that the library does not use."""
    if isinstance(reference, SitesReference):
        covariance = np.linalg.inv(np.linalg.inv(SIGMA) + np.diag(reference.precision))
        return covariance @ reference.linear, covariance
    rows = es.Dense(factor=covariance_factor(PRIOR).T).rows
    return reference.mean @ rows, rows.T @ reference.covariance @ rows


@pytest.mark.parametrize("reference", [SITES, WHITE], ids=["sites", "gaussian"])
def test_a_reference_is_the_gaussian_it_says(reference):
    mean, covariance = gaussian_of(reference)
    relative = reference.relative_to(PRIOR)
    np.testing.assert_allclose(relative.centre, mean, atol=1e-12)
    np.testing.assert_allclose(relative.rows.T @ relative.rows, covariance, atol=1e-12)
    drawn = relative.draw(np.random.default_rng(0), 200_000)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=6 * np.abs(covariance).max() * np.sqrt(2 / 200_000))


@pytest.mark.parametrize("reference", [SITES, WHITE], ids=["sites", "gaussian"])
def test_a_reference_for_another_prior_is_refused(reference):
    with pytest.raises(ValueError, match=r"reference for 4 (elements|standard normals), but the prior has 3\."):
        es.sample(Poisson(COUNTS[:3]), es.Dense(SIGMA[:3, :3]), move=ReferenceSlice(reference), progress=False)


@pytest.mark.parametrize("reference", [SITES, WHITE], ids=["sites", "gaussian"])
def test_on_an_ellipse_five_numbers_say_its_ratio_to_the_prior(reference):
    mean, covariance = gaussian_of(reference)
    q, p = multivariate_normal(mean, covariance), multivariate_normal(np.zeros(4), SIGMA)
    x, nu = np.random.default_rng(1).standard_normal((2, 4))
    ratio, angles = reference.relative_to(PRIOR).log_ratio_on_ellipse(x, nu), np.linspace(0, 6, 20)
    points = mean + np.outer(np.cos(angles), x) + np.outer(np.sin(angles), nu)
    differences = ratio(np.cos(angles), np.sin(angles)) - (q.logpdf(points) - p.logpdf(points))
    np.testing.assert_allclose(differences, differences[0], atol=1e-10)


def test_every_so_many_updates_are_the_prior_s_own():
    """Plain updates use draws with the covariance of the prior, and are bit-identical to those of `EllipticalSlice`."""
    move = ReferenceSlice(SITES, plain_every=4)
    prepared = move.prepare(PRIOR)
    spec = move.noise_spec(PRIOR, prepared)
    nu, kind = spec.draw(np.random.default_rng(0), 200_000)
    assert kind[:8].tolist() == [1, 1, 1, 0, 1, 1, 1, 0]
    for plain, covariance in ((kind == 0, SIGMA), (kind == 1, gaussian_of(SITES)[1])):
        tolerance = 6 * np.abs(covariance).max() * np.sqrt(2 / plain.sum())
        np.testing.assert_allclose(np.cov(nu[plain].T), covariance, atol=tolerance)

    likelihood = Poisson(COUNTS)
    noise = draw_block(spec, 0, 0, 0, 64)
    state = State(np.zeros(4), float(likelihood(np.zeros(4))))
    for t in range(3, 64, 4):
        own = noise.at(t)
        ours, info = move.step(own, state, HostTarget(likelihood, prepared))
        plain = UpdateNoise(own.drawn.nu[None], own.level, own.uniforms)
        theirs, their_info = es.moves.EllipticalSlice().step(plain, state, HostTarget(likelihood))
        np.testing.assert_array_equal(ours.f, theirs.f)
        assert (ours.log_likelihood, info) == (theirs.log_likelihood, their_info)


def test_independent_updates_take_a_draw_of_the_reference_or_stay():
    move = ReferenceSlice(SITES, plain_every=5, independence=True)
    prepared, likelihood = move.prepare(PRIOR), Poisson(COUNTS)
    noise = draw_block(move.noise_spec(PRIOR, prepared), 0, 0, 0, 200)
    assert noise.drawn.kind[:10].tolist() == [2, 2, 1, 2, 0, 2, 2, 1, 2, 0]
    (mean, covariance), sigma = gaussian_of(SITES), multivariate_normal(np.zeros(4), SIGMA)
    q = multivariate_normal(mean, covariance)
    state, met = State(np.full(4, 0.3), float(likelihood(np.full(4, 0.3)))), set()
    for t in np.flatnonzero(noise.drawn.kind == 2):
        own = noise.at(t)
        new, info = move.step(own, state, HostTarget(likelihood, prepared))
        tried = mean + own.drawn.nu
        weight = [float(likelihood(f)) + sigma.logpdf(f) - q.logpdf(f) for f in (state.f, tried)]
        accepted = weight[1] > weight[0] - own.level[0]
        np.testing.assert_allclose(new.f, tried if accepted else state.f, atol=1e-12)
        assert info.evaluations == (1 if accepted else 2)
        met.add(bool(accepted))
        state = new
    assert met == {True, False}


def test_how_many_draws_of_a_reference_would_be_accepted():
    """The estimated acceptance rate is that of a long run, and 1 if the reference is the posterior."""
    runner = CompiledEngine(Posterior(PRIOR, Poisson(COUNTS)))
    fitted = fit_reference("ep", runner, lambda count: [], 0)
    relative = fitted.reference.relative_to(PRIOR)
    found = np.mean([independence_acceptance(relative, runner, seed) for seed in range(20)])
    move = ReferenceSlice(fitted.reference, independence=True)
    tree = es.sample(Poisson(COUNTS), PRIOR, move=move, draws=20_000, chains=1,
                     seed=3, progress=False)  # fmt: skip
    alone = np.isin(np.arange(20_000 + 500) % block_length(5) % 10, [0, 1, 2, 3, 5, 6, 7, 8])[500:]
    assert found == pytest.approx((tree.sample_stats.proposals.values[0][alone] == 1).mean(), abs=0.02)
    exact = CompiledEngine(Posterior(PRIOR, Gaussian(COUNTS * 1.0, 0.1)))
    itself = fit_reference("ep", exact, lambda count: [], 0).reference
    assert independence_acceptance(itself.relative_to(PRIOR), exact, 0) > 0.999


@pytest.mark.parametrize("way", ["laplace", "ep"])
def test_a_gaussian_posterior_is_its_own_reference(way):
    """Every first proposal is then accepted, and the draws are independent."""
    y, sigma = np.array([2.0, -1.0, 0.5, 3.0]), 0.05
    prior = es.Dense(SIGMA, mean=1.5)
    tree = es.sample(Gaussian(y, sigma), prior, reference=way, draws=10_000, warmup=0, chains=1, seed=1, progress=False)
    proposals = tree.sample_stats["proposals"].to_numpy()[0]
    around = np.arange(10_000) % block_length(4) % 10 != 9
    assert (proposals[around] == 1).mean() > 0.999  # rounding decides if the level is nearly that of the state
    assert proposals[~around].mean() > 2
    assert tree.attrs["reference"] == way
    assert tree.attrs["first_proposal_acceptance_rate"] == pytest.approx((proposals == 1).mean())
    covariance = np.linalg.inv(np.linalg.inv(SIGMA) + np.eye(4) / sigma**2)
    mean = 1.5 + covariance @ (y - 1.5) / sigma**2
    f = tree.posterior["f"].to_numpy()[0]
    error = 6 * np.sqrt(covariance.diagonal() / 8_000)
    np.testing.assert_allclose(f.mean(axis=0), mean, atol=error.max())
    np.testing.assert_allclose(f.var(axis=0), covariance.diagonal(), rtol=6 * np.sqrt(2 / 8_000))


def test_laplace_is_at_the_mode():
    likelihood = Poisson(COUNTS)
    with on_cpu():
        sites = fit_laplace(covariance_factor(PRIOR), likelihood)
    precision = np.linalg.inv(SIGMA)
    mode = minimize(lambda f: 0.5 * f @ precision @ f - float(likelihood(f)), np.zeros(4), tol=1e-12).x
    np.testing.assert_allclose(SitesReference(sites.linear, sites.precision).relative_to(PRIOR).centre, mode, atol=1e-5)
    np.testing.assert_allclose(sites.precision, np.exp(mode), rtol=1e-5)


@pytest.mark.parametrize(
    "likelihood",
    [Poisson(COUNTS), Logistic([1.0, -1.0, 1.0, 1.0]), StudentT(COUNTS, noise_scale=0.7, degrees_of_freedom=4.0)],
    ids=["Poisson", "Logistic", "StudentT"],
)
def test_propagation_is_exact_where_values_are_independent(likelihood):
    """Means and variances of each element, compared with numerical integration."""
    deviations = np.array([0.5, 1.0, 2.0, 1.5])
    prior = es.Diagonal(deviations**2)
    with on_cpu():
        sites = fit_ep(
            covariance_factor(prior), likelihood.pointwise, fit_laplace(covariance_factor(prior), likelihood)
        )
    relative = SitesReference(sites.linear, sites.precision).relative_to(prior)
    variances = (relative.rows**2).sum(axis=0)

    def density(value, i):
        f = np.zeros(4)
        f[i] = value
        return np.exp(likelihood.pointwise(f)[i] - 0.5 * (value / deviations[i]) ** 2)

    for i, deviation in enumerate(deviations):
        limits = (-9 * deviation, 9 * deviation)
        mass, first, second = (
            quad(lambda value, i=i, k=k: value**k * density(value, i), *limits, limit=400)[0] for k in range(3)
        )
        mean = first / mass
        variance = second / mass - mean**2
        if variance < deviation**2:  # else the site would have a negative precision, which is not allowed
            assert relative.centre[i] == pytest.approx(mean, abs=0.01 * np.sqrt(variance))
            assert variances[i] == pytest.approx(variance, rel=0.02)


LINES = RNG.standard_normal((40, 4))
LABELS = np.where(LINES @ np.array([2.0, -1.0, 0.0, 1.0]) > 0, 1.0, -1.0)


@pytest.mark.short_cases(
    "ready-made-laplace", "ready-made-ep", "own-laplace", "own-ep", "numpy-ep", "numpy-laplace", "ready-made-way4"
)
@pytest.mark.long_cases("ready-made-pilot", "own-pilot", "linear-auto", "linear-pilot")
@pytest.mark.parametrize("way", ["auto", "laplace", "ep", "pilot", es.Dense(0.5 * SIGMA, mean=[1.0, 0.0, 0.0, 0.5])])
@pytest.mark.parametrize("kind", ["ready-made", "own", "linear", "numpy"])
def test_any_reference_gives_the_same_posterior(kind, way):
    """Even with a poor reference the draws agree with those of long plain chains, within six standard errors."""
    likelihoods = {
        "ready-made": Poisson(COUNTS),
        "own": lambda f: jnp.sum(COUNTS * f - jnp.exp(f)),
        "linear": LinearPredictor(LINES, Logistic(LABELS)),
        "numpy": lambda f: float(np.sum(COUNTS * f - np.exp(f))),
    }
    options = {"chains": 2, "warmup": 200, "progress": False}
    if kind == "numpy" and way in ("laplace", "ep"):
        with pytest.raises(ValueError, match=r'requires a log-likelihood that factorises.*traced by JAX.*"pilot"'):
            es.sample(likelihoods[kind], PRIOR, reference=way, draws=10, seed=1, **options)
        return
    tree = es.sample(likelihoods[kind], PRIOR, reference=way, draws=4_000, seed=1, **options)
    plain = es.sample(likelihoods["own" if kind == "numpy" else kind], PRIOR, draws=20_000, seed=2, **options)
    for power in (1, 2):
        for i in range(4):
            both = [one.posterior["f"].to_numpy()[..., i] ** power for one in (tree, plain)]
            error = np.sqrt(sum(values.var() / max(20.0, float(effective_sample_size(values))) for values in both))
            assert both[0].mean() == pytest.approx(both[1].mean(), abs=6 * error)


@pytest.mark.long
def test_named_latents_and_means():
    prior = es.Stack({"level": es.Diagonal([4.0], mean=1.0), "wave": es.Dense(SIGMA)})

    def log_likelihood(level, wave):
        return -50.0 * jnp.sum((level + wave - COUNTS) ** 2)

    tree = es.sample(log_likelihood, prior, reference="auto", draws=2_000, seed=1, progress=False)
    assert tree.attrs["reference"] == "pilot"  # the likelihood does not factorise over the elements
    sums = (tree.posterior["level"] + tree.posterior["wave"]).to_numpy()
    assert np.abs(sums.mean(axis=(0, 1)) - COUNTS).max() < 0.3


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"reference": "best"}, r'reference must be one of "auto", "laplace", "ep", "pilot"'),
        ({"reference": "auto", "move": es.moves.EllipticalSlice()}, "uses its own move"),
        ({"reference": "auto", "engine": "fused"}, 'Use engine="batched"'),
        ({"reference": es.Dense(np.eye(3))}, "reference has the latents"),
        ({"reference": es.LowRank(np.ones((4, 1)))}, "no variance in some direction"),
    ],
)
def test_what_makes_no_sense_is_refused(options, says):
    with pytest.raises(ValueError, match=says):
        es.sample(Poisson(COUNTS), PRIOR, draws=10, seed=1, progress=False, **options)


def test_a_truncated_prior_has_its_own_way():
    truncated = es.TruncatedGaussian.box(PRIOR, 0.0, np.inf)
    with pytest.raises(ValueError, match="requires a prior without constraints"):
        es.sample(Poisson(COUNTS), truncated, reference="auto", draws=10, seed=1, progress=False)


def test_a_reference_off_the_prior_s_span_is_refused():
    singular = es.LowRank(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]]))
    with pytest.raises(ValueError, match=r"reference has draws that the prior does not.*dimension is 2 for 4"):
        es.sample(Poisson(COUNTS), singular, reference=PRIOR, draws=10, seed=1, progress=False)


@pytest.mark.parametrize("plain", [1, 0, 2.5, True])
def test_plain_updates_are_counted_in_whole_numbers(plain):
    with pytest.raises(ValueError, match="plain_every must be a whole number, at least 2"):
        ReferenceSlice(SITES, plain_every=plain)


@pytest.mark.long
def test_a_pilot_has_noise_of_its_own(monkeypatch):
    """Otherwise the reference would depend on the random numbers that the chains are about to use."""
    used, run = [], pilot_module._run
    monkeypatch.setattr(pilot_module, "_run", lambda *given: used.append(given[1].seed) or run(*given))
    es.sample(Poisson(COUNTS), PRIOR, reference="pilot", draws=10, seed=1, progress=False)
    assert len(set(used)) == 1
    assert used[0] != 1


def test_chains_start_where_the_reference_is():
    """The chains do not start at draws from the prior, where this likelihood is zero."""

    def log_likelihood(f):
        return jnp.where(jnp.abs(f - 30.0).max() < 9.0, -50.0 * jnp.sum((f - 30.0) ** 2), -jnp.inf)

    around = es.Dense(0.02 * SIGMA, mean=30.0)
    tree = es.sample(log_likelihood, PRIOR, reference=around, draws=50, warmup=0, seed=1, progress=False)
    assert np.abs(tree.posterior["f"].to_numpy() - 30.0).max() < 9.0


FIVE = np.array([0.0, 3.0, 1.0, 2.0, 0.0])
BATCHED = {
    "last axis": lambda f: jnp.sum(FIVE * f - jnp.exp(f), -1),
    "two sums": lambda f: (FIVE * f).sum(axis=1) - jnp.exp(f).sum(axis=1),
    "vmap": jax.vmap(lambda f: jnp.sum(FIVE * f - jnp.exp(f))),
    "mean": lambda f: 5.0 * jnp.mean(FIVE * f - jnp.exp(f), axis=-1),
}


@pytest.mark.long_cases("last axis")
@pytest.mark.parametrize("function", BATCHED.values(), ids=BATCHED)
def test_the_terms_of_a_function_of_batches(function):
    """It was once rejected because its sum has a batch axis, and "auto" made a pilot run without a message."""
    prior = es.Dense(np.eye(5) + 0.5, mean=0.3)
    with on_cpu():
        found = factorise_likelihood(Posterior(prior, function, vectorized=True))
        plain = factorise_likelihood(Posterior(prior, lambda f: jnp.sum(FIVE * f - jnp.exp(f))))
        assert not isinstance(found, str)
        assert not isinstance(plain, str)
        f = np.linspace(-1.0, 1.0, 10).reshape(2, 5)
        np.testing.assert_allclose(found.pointwise(f), plain.pointwise(f), rtol=1e-14)
        np.testing.assert_allclose(found.log_likelihood(f[0]), plain.log_likelihood(f[0]), rtol=1e-14)


def test_the_terms_of_a_linear_predictor_of_batches():
    linear = LinearPredictor(np.ones((5, 3)), BATCHED["last axis"])
    with on_cpu():
        found = factorise_likelihood(Posterior(es.Diagonal(np.ones(3)), linear, vectorized=True))
        assert not isinstance(found, str)
        assert found.elements == slice(3, 8)
        np.testing.assert_allclose(found.pointwise(np.zeros((1, 5))), -np.ones((1, 5)))


def test_a_function_of_batches_that_is_no_sum():
    with on_cpu():
        found = factorise_likelihood(
            Posterior(es.Diagonal(np.ones(5)), lambda f: jnp.sum(f * f[..., ::-1], -1), vectorized=True)
        )
    assert found == "it has the operation rev, which is not supported on single elements of f"


DRAWS_ONLY = es.FromDraws(lambda rng: rng.standard_normal(5), 5)


@pytest.mark.parametrize(
    "prior", [DRAWS_ONLY, es.Stack({"f": DRAWS_ONLY}), es.Sum(DRAWS_ONLY, es.Diagonal(np.ones(5)))]
)
@pytest.mark.parametrize("way", ["auto", "ep", "laplace", "pilot"])
def test_a_prior_without_a_covariance_has_no_reference(prior, way):
    with pytest.raises(TypeError, match=rf'reference="{way}" requires a covariance, but .*FromDraws.*reference=None'):
        es.sample(Poisson(FIVE), prior, reference=way, draws=2, warmup=0, engine="host")


def test_other_ways_to_ask_a_prior_for_its_covariance():
    with pytest.raises(TypeError, match=r"reference=a Gaussian requires a covariance, but FromDraws"):
        es.sample(Poisson(FIVE), DRAWS_ONLY, reference=es.Diagonal(np.ones(5)), draws=2, engine="host")
    with pytest.raises(TypeError, match=r"reference requires a covariance, but FromDraws.*Use reference=.auto."):
        es.sample(Poisson(FIVE), es.Diagonal(np.ones(5)), reference=DRAWS_ONLY, draws=2, engine="host")
    with pytest.raises(TypeError, match=r'method="ep" requires a covariance, but FromDraws.*es.evidence'):
        es.approximate_evidence(Poisson(FIVE), DRAWS_ONLY)
    with pytest.raises(TypeError, match=r'reference="laplace" requires a covariance, but FromDraws.*reference=None'):
        es.evidence(Poisson(FIVE), DRAWS_ONLY, reference="laplace", particles=16, replicates=4)


def test_the_evidence_looks_for_a_reference_only_where_there_can_be_one():
    """`reference="auto"`, the default, once raised for priors that can only draw."""
    found = es.evidence(Poisson(FIVE), DRAWS_ONLY, particles=16, replicates=4, check=False, seed=1)
    assert found.reference == "prior"

"""Options of the modules for BlackJAX, NumPyro and PyMC in combination, on three elements with a known posterior.

f has a Gaussian prior and is observed with Gaussian noise. Rows that must be rejected are listed with their message.
All others run, agree with the exact posterior within Monte Carlo error, and give the same draws when repeated.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pymc as pm
import pytensor
import pytest
from blackjax.util import run_inference_algorithm
from numpyro.infer import MCMC, NUTS, Gibbs, HMCGibbs
from numpyro.infer.reparam import LocScaleReparam
from scipy.linalg import block_diag

import ellipslice as es
from catalogue import CORRELATED
from combinations.pairs import Refusal, all_pairs, each_value, name, refusals_of, refused_rows
from ellipslice.interop.blackjax import elliptical_slice, init
from ellipslice.interop.numpyro import EllipticalSlice, gaussian_sites
from ellipslice.interop.pymc import EllipticalSlice as Step
from statistical.monte_carlo import compare_gaussian
from statistical.test_closed_form import posterior

Y, SIGMA = np.array([-1.0, 0.5, 1.5]), 0.5
MEANS: dict[str, Any] = {"number": 0.5, "array": np.array([0.5, 0.0, -0.5])}
MATERN = 2.0 * np.asarray(pm.gp.cov.Matern32(1, ls=1.5)(np.arange(3.0)[:, None]).eval())


def params(rows, options, short=()):
    """Return a case for each row. All are long, except those whose numbers are in `short`."""
    return [
        pytest.param(row, id=name(row, options), marks=[] if number in short else [pytest.mark.long])
        for number, row in enumerate(rows)
    ]


def check_refused(run, row, refusals):
    messages = "|".join(f"({refusal.message})" for refusal in refusals_of(row, refusals))
    with pytest.raises((ValueError, TypeError), match=messages):
        run(row)


def check(draws, covariance, mean, offset, row):
    """Compare draws (chain, draw, 3) with the posterior of f.

    With `offset` a fourth unknown with a flat prior is added to f, and a fourth observation is this unknown plus noise.
    """
    y, rows = Y, None
    if offset:
        covariance, mean = block_diag(covariance, 1e6), np.append(np.broadcast_to(mean, 3), 0.0)
        y, rows = np.append(Y, OFFSET), np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1]])
    mean, covariance = posterior(covariance, y, SIGMA, mean, rows)
    assert np.isfinite(draws).all()
    compare_gaussian(np.asarray(draws, float), mean[:3], covariance[:3, :3], str(row))


OFFSET = 0.7
"""Observed value of the fourth unknown."""


# --- BlackJAX -------------------------------------------------------------------------------------------------------

BLACKJAX: dict[str, list[Any]] = {
    "prior": ["cov", "variances", "traced", "Dense", "Stack", "host", "both", "prior and mean", "none"],
    "mean": [*MEANS, "short"],
    "likelihood": ["function", "Gaussian", "not summed", "impossible"],
    "position": ["vector", "dict", "short", "complex"],
    "chains": ["one", "vmap"],
    "precision": ["single", "double"],
}
OF_COVARIANCE = ("cov", "variances", "traced")
BLACKJAX_REFUSALS = [
    Refusal("draws on the host, which JAX cannot compile. Use ellipslice.sample", lambda prior: prior == "host"),
    Refusal("cov=, or one of ellipslice's priors, prior=, not both", lambda prior: prior in ("both", "none")),
    Refusal("mean= is only for cov=; a prior has its own", lambda prior: prior == "prior and mean"),
    Refusal(
        r"mean has shape \(2,\)",
        lambda prior, mean: mean == "short" and prior in (*OF_COVARIANCE, "Dense"),
    ),
    Refusal("must return one number", lambda likelihood: likelihood == "not summed"),
    Refusal("the log-likelihood of the first position is -inf", lambda likelihood: likelihood == "impossible"),
    Refusal(
        "the position has 2 elements, but the prior has 3",
        lambda prior, position: position == "short" and prior in OF_COVARIANCE,
    ),
    Refusal(
        r"the position has shape \(2,\), but the prior has shape \(3,\) there",
        lambda prior, position: position == "short" and prior == "Dense",
    ),
    Refusal(
        r"the position is a dict, but the prior has one array there, of shape \(3,\)",
        lambda prior, position: position == "dict" and prior == "Dense",
    ),
    Refusal(
        "the position must be a dict of c, b",
        lambda prior, position: position in ("vector", "short") and prior == "Stack",
    ),
    Refusal("positions must be real numbers", lambda position: position == "complex"),
]
BLACKJAX_NOT_TRIED = [
    Refusal(".", lambda mean, prior: mean == "short" and prior == "Stack"),  # its latents have their own means
]


def as_vector(position):
    return jnp.concatenate([position["b"], position["c"]]) if isinstance(position, dict) else position


def by_function(f):
    return -0.5 * jnp.sum((f - Y[: len(f)]) ** 2) / SIGMA**2


BLACKJAX_FUNCTIONS = {
    "function": by_function,
    "not summed": lambda f: -0.5 * f**2,
    "impossible": lambda f: jnp.sum(f) * 0 - jnp.inf,
}
BLACKJAX_COVARIANCES = {
    "variances": np.diag(np.diag(CORRELATED)),
    "Stack": block_diag(CORRELATED[:2, :2], CORRELATED[2:, 2:]),
}


def blackjax_prior(row) -> dict[str, Any]:
    """Return the arguments of `elliptical_slice` for a prior whose covariance is not traced."""
    mean = np.zeros(2) if row["mean"] == "short" else MEANS[row["mean"]]
    each = np.broadcast_to(mean, 3) if row["prior"] == "Stack" else mean
    make = {
        "cov": lambda: {"cov": CORRELATED, "mean": mean},
        "variances": lambda: {"cov": np.diag(CORRELATED), "mean": mean},
        "Dense": lambda: {"prior": es.Dense(CORRELATED, mean)},
        "Stack": lambda: {
            "prior": es.Stack(
                {"c": es.Dense(CORRELATED[2:, 2:], each[2:]), "b": es.Dense(CORRELATED[:2, :2], each[:2])}
            )
        },
        "host": lambda: {"prior": es.FromDraws(lambda rng: rng.normal(size=3), 3)},
        "both": lambda: {"prior": es.Dense(CORRELATED), "cov": CORRELATED},
        "prior and mean": lambda: {"prior": es.Dense(CORRELATED), "mean": mean},
        "none": lambda: {"mean": mean},
    }
    return make[row["prior"]]()


def in_blackjax(row, updates=2000):
    """Return draws, shape (chain, draw, 3). Chains run twice and must be equal."""
    # A new prior for each row, because JAX would reuse cached arrays in the other precision.
    value = BLACKJAX_FUNCTIONS.get(row["likelihood"]) or es.likelihoods.Gaussian(Y.copy(), SIGMA)
    of_vector = row["position"] != "dict" and row["likelihood"] == "Gaussian"
    log_likelihood = value if of_vector else lambda position: value(as_vector(position))
    start = {
        "vector": jnp.zeros(3),
        "dict": {"b": jnp.zeros(2), "c": jnp.zeros(1)},
        "short": jnp.zeros(2),
        "complex": jnp.zeros(3, complex),
    }[row["position"]]
    keys = jax.random.split(jax.random.key(4), 3)

    state = init(start, log_likelihood)

    def run(key, covariance):
        mean = np.zeros(2) if row["mean"] == "short" else MEANS[row["mean"]]
        given = {"cov": covariance, "mean": mean} if row["prior"] == "traced" else blackjax_prior(row)
        algorithm = elliptical_slice(log_likelihood, **given)
        states, info = run_inference_algorithm(key, algorithm, updates, initial_state=state)[1]
        return jax.vmap(as_vector)(states.position), info.search_failed

    compiled = jax.jit(jax.vmap(run, (0, None)) if row["chains"] == "vmap" else run)
    arguments = (keys if row["chains"] == "vmap" else keys[0]), jnp.asarray(CORRELATED)
    draws, stuck = (np.asarray(part) for part in compiled(*arguments))
    assert not stuck.any()
    np.testing.assert_array_equal(compiled(*arguments)[0], draws)
    return draws if row["chains"] == "vmap" else draws[None]


@pytest.mark.parametrize(
    "row", params(all_pairs(BLACKJAX, [*BLACKJAX_REFUSALS, *BLACKJAX_NOT_TRIED]), BLACKJAX, short=(5,))
)
def test_a_row_runs_in_blackjax(row):
    with jax.enable_x64(row["precision"] == "double"):
        draws = in_blackjax(row)
    assert draws.dtype == ("float64" if row["precision"] == "double" else "float32")
    assert draws.shape == (3 if row["chains"] == "vmap" else 1, 2000, 3)
    check(draws, BLACKJAX_COVARIANCES.get(row["prior"], CORRELATED), MEANS[row["mean"]], False, row)


@pytest.mark.parametrize("row", refused_rows(BLACKJAX, BLACKJAX_REFUSALS), ids=lambda row: name(row, BLACKJAX))
def test_a_row_is_refused_in_blackjax(row):
    check_refused(in_blackjax, row, BLACKJAX_REFUSALS)


# --- NumPyro --------------------------------------------------------------------------------------------------------

NUMPYRO: dict[str, list[Any]] = {
    "prior": ["Normal", "covariance", "scale_tril", "precision", "plate", "reparametrised", "LogNormal", "scaled"],
    "beside": ["nothing", "Gibbs", "HMCGibbs", "no kernel"],
    "sites": ["all", "named", "wrong", "string"],
    "chains": ["together", "sequential", "vectorized"],
    "thinning": [1, 2],
    "updates_per_draw": [1, 2, 0],
    "precision": ["single", "double"],
}
WITH_NUTS = ("Gibbs", "HMCGibbs")
NUMPYRO_REFUSALS = [
    Refusal(
        "no latent site of the model has a Gaussian prior: f, its prior is a LogNorm",
        lambda prior: prior == "LogNormal",
    ),
    Refusal("f, its log density is scaled", lambda prior: prior == "scaled"),
    Refusal(r"but the model also has offset \(its prior is a Uniform\)", lambda beside: beside == "no kernel"),
    Refusal("nowhere: no such latent site. The model's are ", lambda sites: sites == "wrong"),
    Refusal(r"sites must be a list of names: sites=\['f'\]", lambda sites: sites == "string"),
    Refusal(
        "updates_per_draw must be a whole number, at least 1, but it is 0",
        lambda updates_per_draw: updates_per_draw == 0,
    ),
    Refusal(
        "Gibbs only supports a single random key",  # raised by NumPyro, whose message names chain_method=jax.vmap
        lambda beside, chains: beside == "Gibbs" and chains == "vectorized",
    ),
]
NUMPYRO_NOT_TRIED = [
    # "together" is chain_method="vectorized" without NUTS.
    Refusal(".", lambda beside, chains: beside != "Gibbs" and chains == "vectorized"),
    # Rows with NUTS take longest.
    Refusal(".", lambda prior, beside: beside == "HMCGibbs" and prior != "covariance"),
    Refusal(".", lambda prior, beside: beside == "Gibbs" and prior != "reparametrised"),
    Refusal(".", lambda chains, beside: beside in WITH_NUTS and chains == "sequential"),
]
NUMPYRO_ROWS = each_value(NUMPYRO, [*NUMPYRO_REFUSALS, *NUMPYRO_NOT_TRIED])
"""Not all pairs are tested, because NumPyro takes long to compile a row."""
NUMPYRO_COVARIANCES = {
    "Normal": 4.0 * np.eye(3),
    "precision": np.linalg.inv(CORRELATED),
    "plate": np.eye(3) + 1.0,
    "reparametrised": 4.0 * np.eye(3),
}


def numpyro_model(row):
    """Return a model of f, and the names of its latent sites with a Gaussian prior."""
    dtype = np.float64 if row["precision"] == "double" else np.float32
    matrix, mean = jnp.asarray(CORRELATED, dtype), jnp.full(3, 0.5, dtype)

    def plate():
        level = numpyro.sample("level", dist.Normal(0.5, 1.0))
        with numpyro.plate("places", 3):
            return numpyro.sample("f", dist.Normal(level, 1.0))

    def reparametrised():
        with numpyro.handlers.reparam(config={"f": LocScaleReparam(0)}):
            return numpyro.sample("f", dist.Normal(mean, 2.0).to_event(1))

    def scaled():
        with numpyro.handlers.scale(scale=2.0):
            return numpyro.sample("f", dist.Normal(mean, 2.0).to_event(1))

    priors = {
        "Normal": lambda: numpyro.sample("f", dist.Normal(mean, 2.0)),
        "covariance": lambda: numpyro.sample("f", dist.MultivariateNormal(mean, covariance_matrix=matrix)),
        "scale_tril": lambda: numpyro.sample(
            "f", dist.MultivariateNormal(mean, scale_tril=jnp.linalg.cholesky(matrix))
        ),
        "precision": lambda: numpyro.sample("f", dist.MultivariateNormal(mean, precision_matrix=matrix)),
        "plate": plate,
        "reparametrised": reparametrised,
        "LogNormal": lambda: numpyro.sample("f", dist.LogNormal(mean, 1.0).to_event(1)),
        "scaled": scaled,
    }
    sites = {"plate": ["level", "f"], "reparametrised": ["f_decentered"]}.get(row["prior"], ["f"])

    def model(y):
        f, offset = priors[row["prior"]](), 0.0
        if row["beside"] != "nothing":
            offset = numpyro.sample("offset", dist.Uniform(-30.0, 30.0))
            numpyro.sample("y_offset", dist.Normal(offset, SIGMA), obs=OFFSET)
        numpyro.sample("y", dist.Normal(f + offset, SIGMA), obs=y)

    return model, sites


def in_numpyro(row, draws=1000):
    """Return draws, shape (chain, draw, 3). The first row runs twice and must be equal."""
    model, own = numpyro_model(row)
    y = jnp.asarray(Y)
    sites: Any = {"all": None, "named": own, "wrong": ["nowhere"], "string": "f"}[row["sites"]]
    kernel: Any = EllipticalSlice(model, sites, updates_per_draw=row["updates_per_draw"])
    if row["beside"] == "Gibbs":
        kernel = Gibbs([(kernel, gaussian_sites), (NUTS(model), None)])
    if row["beside"] == "HMCGibbs":
        kernel = HMCGibbs(NUTS(model), kernel.gibbs_fn((y,)), gibbs_sites=own)
    method: Any = "vectorized" if row["beside"] not in WITH_NUTS else jax.vmap
    mcmc = MCMC(
        kernel,
        num_warmup=100,
        num_samples=draws,
        num_chains=2,
        chain_method=method if row["chains"] == "together" else row["chains"],
        thinning=row["thinning"],
        progress_bar=False,
    )
    mcmc.run(jax.random.key(5), y)
    f = mcmc.get_samples(group_by_chain=True)["f"]
    if row == NUMPYRO_ROWS[0]:
        mcmc.run(jax.random.key(5), y)
        np.testing.assert_array_equal(mcmc.get_samples(group_by_chain=True)["f"], f)
    return np.asarray(f)


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")  # NUTS alone warns as well, under vmap
@pytest.mark.parametrize("row", params(NUMPYRO_ROWS, NUMPYRO))
def test_a_row_runs_in_numpyro(row):
    with jax.enable_x64(row["precision"] == "double"):
        draws = in_numpyro(row)
    assert draws.dtype == ("float64" if row["precision"] == "double" else "float32")
    assert draws.shape == (2, 1000 // row["thinning"], 3)
    check(draws, NUMPYRO_COVARIANCES.get(row["prior"], CORRELATED), 0.5, row["beside"] != "nothing", row)


@pytest.mark.parametrize("row", refused_rows(NUMPYRO, NUMPYRO_REFUSALS), ids=lambda row: name(row, NUMPYRO))
def test_a_row_is_refused_in_numpyro(row):
    check_refused(in_numpyro, row, NUMPYRO_REFUSALS)


# --- PyMC -----------------------------------------------------------------------------------------------------------

PYMC: dict[str, list[Any]] = {
    "prior": ["Normal", "cov", "chol", "tau", "gp", "whitened", "two", "HalfNormal", "bounded"],
    "chosen": ["given", "all", "observed", "missing"],
    "beside": ["nothing", "NUTS"],
    "chains": [1, 2],
    "dims": [False, True],
    "updates_per_draw": [1, 2, 0],
    "blocked": [True, False],
}
ALIKE = ("chol", "tau")
"""PyMC treats these like a covariance, so there is one row for each."""
PYMC_REFUSALS = [
    Refusal(
        "f has none: its prior is a HalfNormal. Leave it to NUTS",
        lambda prior, chosen: prior == "HalfNormal" and chosen == "given",
    ),
    Refusal(
        "f has none: it is sampled through a Interval", lambda prior, chosen: prior == "bounded" and chosen == "given"
    ),
    Refusal(
        "no free variable with a normal prior",
        lambda prior, chosen: prior in ("HalfNormal", "bounded") and chosen == "all",
    ),
    Refusal("y is not a free variable of the model. Those with a normal prior: ", lambda chosen: chosen == "observed"),
    Refusal("nowhere is not a free variable of the model", lambda chosen: chosen == "missing"),
    Refusal(
        "updates_per_draw must be a whole number, at least 1, but it is 0",
        lambda updates_per_draw: updates_per_draw == 0,
    ),
]
PYMC_NOT_TRIED = [
    Refusal(".", lambda prior, chosen: prior in ALIKE and chosen != "given"),
    Refusal(".", lambda prior, beside: prior in ALIKE and beside != "nothing"),
    Refusal(".", lambda prior, chains: prior in ALIKE and chains != 1),
    Refusal(".", lambda prior, dims: prior in ALIKE and dims),
    Refusal(".", lambda prior, updates_per_draw: prior in ALIKE and updates_per_draw != 1),
    Refusal(".", lambda prior, blocked: prior in ALIKE and not blocked),
    # A row with NUTS takes longest.
    Refusal(".", lambda prior, beside: beside == "NUTS" and prior not in ("cov", "two")),
]
PYMC_COVARIANCES = {
    "Normal": 4.0 * np.eye(3),
    "tau": np.linalg.inv(CORRELATED),
    "gp": MATERN,
    "whitened": MATERN,
    "two": np.eye(3) + 1.0,
}


def pymc_prior(kind, dims):
    """Return f, or the list of variables of which it is the last."""
    mean, size = np.full(3, 0.5), {"dims": "place"} if dims else {}
    shape = size or {"shape": 3}
    process = pm.gp.Latent(cov_func=2.0 * pm.gp.cov.Matern32(1, ls=1.5))
    interval = pm.distributions.transforms.Interval(-9, 9)
    make = {
        "Normal": lambda: [pm.Normal("f", 0.5, 2.0, **shape)],
        "cov": lambda: [pm.MvNormal("f", mean, cov=CORRELATED, **size)],
        "chol": lambda: [pm.MvNormal("f", mean, chol=np.linalg.cholesky(CORRELATED), **size)],
        "tau": lambda: [pm.MvNormal("f", mean, tau=CORRELATED, **size)],
        "gp": lambda: [process.prior("f", X=np.arange(3.0)[:, None], reparameterize=False, **size)],
        "whitened": lambda: [process.prior("f", X=np.arange(3.0)[:, None], **size)],
        "two": lambda: [level := pm.Normal("level", 0.5, 1.0), pm.Normal("f", level, 1.0, **shape)],
        "HalfNormal": lambda: [pm.HalfNormal("f", 1.0, **shape)],
        "bounded": lambda: [pm.Normal("f", default_transform=interval, **shape)],
    }
    return make[kind]()


def pymc_draws(row):
    return 250 if row["beside"] == "NUTS" else 600


def in_pymc(row):
    """Return draws, dimensions (chain, draw, place). Without NUTS the first are repeated and must be equal."""
    with pm.Model(coords={"place": ["a", "b", "c"]} if row["dims"] else None):
        variables, offset = pymc_prior(row["prior"], row["dims"]), 0.0
        if row["beside"] == "NUTS":
            offset = pm.Uniform("offset", -30.0, 30.0)
            pm.Normal("y_offset", offset, SIGMA, observed=OFFSET)
        y = pm.Normal("y", variables[-1] + offset, SIGMA, observed=Y)
        given = {"given": variables, "all": None, "observed": [y], "missing": ["nowhere"]}[row["chosen"]]
        step = Step(given, updates_per_draw=row["updates_per_draw"], blocked=row["blocked"])

        def sample(draws):
            return pm.sample(
                draws,
                tune=100,
                chains=row["chains"],
                cores=1,
                step=step,
                random_seed=6,
                progressbar=False,
                compute_convergence_checks=False,
                quiet=True,
            )

        trace = sample(pymc_draws(row))
        f = trace.posterior["f"]
        if row["beside"] == "nothing":
            np.testing.assert_array_equal(sample(5).posterior["f"], f[:, :5])
    assert (trace.sample_stats["evaluations"] >= row["updates_per_draw"]).all()
    return f


@pytest.fixture
def in_python():
    """Use no C compiler, because compilation would take most of the time."""
    with pytensor.config.change_flags(mode="FAST_COMPILE", cxx=""):
        yield


@pytest.mark.usefixtures("in_python")
@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
@pytest.mark.parametrize("row", params(all_pairs(PYMC, [*PYMC_REFUSALS, *PYMC_NOT_TRIED]), PYMC))
def test_a_row_runs_in_pymc(row):
    f = in_pymc(row)
    assert f.dtype == "float64"
    assert f.shape == (row["chains"], pymc_draws(row), 3)
    assert f.dims[2] == ("place" if row["dims"] else "f_dim_0")
    mean = 0.0 if row["prior"] in ("gp", "whitened") else 0.5
    check(f.values, PYMC_COVARIANCES.get(row["prior"], CORRELATED), mean, row["beside"] == "NUTS", row)


@pytest.mark.usefixtures("in_python")
@pytest.mark.parametrize("row", refused_rows(PYMC, PYMC_REFUSALS), ids=lambda row: name(row, PYMC))
def test_a_row_is_refused_in_pymc(row):
    check_refused(in_pymc, row, PYMC_REFUSALS)

"""Our step method inside PyMC: known posteriors, every supported prior, use with NUTS, injected bugs, errors."""

from __future__ import annotations

from functools import cache

import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy import stats

from catalogue import CORRELATED, SINGULAR
from ellipslice.interop import pymc as module
from ellipslice.interop.pymc import EllipticalSlice
from ellipslice.moves.search import search
from statistical.monte_carlo import SEED, compare, compare_gaussian
from statistical.test_closed_form import posterior

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),  # slower, which does not matter here
    pytest.mark.usefixtures("in_python"),
]

Y = np.array([-1.0, 0.5, 1.5])
SIGMA = 0.5
QUIET = {"progressbar": False, "compute_convergence_checks": False, "quiet": True}


@pytest.fixture
def in_python():
    """Use no C compiler, because compilation would take most of the time for such small models."""
    with pytensor.config.change_flags(mode="FAST_COMPILE", cxx=""):
        yield


def chain(step, names, draws=5000, number=0, point=None):
    """Return draws of some variables by our step method alone, shape (1, draw, ...), and its statistics."""
    step.rng = np.random.default_rng(SEED + number)
    point = step_model(step).initial_point() if point is None else point
    kept, stats_of = {name: [] for name in names}, []
    for _ in range(draws):
        point, (about,) = step.step(point)
        stats_of.append(about)
        for name in names:
            kept[name].append(point[name])
    return {name: np.array(rows)[None] for name, rows in kept.items()}, stats_of


def step_model(step):
    return step.__getnewargs_ex__()[1]["model"]


# --- known posteriors -----------------------------------------------------------------------------------------------

CHOLESKY = np.linalg.cholesky(CORRELATED)
X = np.arange(3.0)[:, None]
MATERN = np.asarray(pm.gp.cov.Matern32(1, ls=1.5)(X).eval())


def process(whitened):
    # Without a mean, because PyTensor 2.38.3 drops the mean of a whitened process when it compiles to C.
    return pm.gp.Latent(cov_func=2.0 * pm.gp.cov.Matern32(1, ls=1.5)).prior("f", X=X, reparameterize=whitened)


MODELS = {
    "Normal": (lambda: pm.Normal("f", 0.5, 2.0, shape=3), 4.0 * np.eye(3), 0.5),
    "MvNormal, covariance": (lambda: pm.MvNormal("f", np.full(3, 0.5), cov=CORRELATED), CORRELATED, 0.5),
    "MvNormal, singular": (lambda: pm.MvNormal("f", np.full(3, 0.5), cov=SINGULAR), SINGULAR, 0.5),
    "MvNormal, factor": (lambda: pm.MvNormal("f", np.full(3, 0.5), chol=CHOLESKY), CORRELATED, 0.5),
    "MvNormal, precision": (lambda: pm.MvNormal("f", np.full(3, 0.5), tau=CORRELATED), np.linalg.inv(CORRELATED), 0.5),
    "process": (lambda: process(False), 2.0 * MATERN, 0.0),
    "process, whitened": (lambda: process(True), 2.0 * MATERN, 0.0),
}


@pytest.mark.short_cases("Normal")
@pytest.mark.statistical
@pytest.mark.parametrize("name", MODELS)
def test_known_posteriors(name):
    make, covariance, mean = MODELS[name]
    with pm.Model():
        f = make()
        pm.Normal("y", f, SIGMA, observed=Y)
        step = EllipticalSlice([f])
    (own,) = step.vars
    draws, about = chain(step, [own.name])
    values = draws[own.name]
    if own.name != "f":  # the white noise of the function; PyMC adds 1e-6 to the diagonal
        values = values @ np.linalg.cholesky(covariance + 1e-6 * np.eye(3)).T
    compare_gaussian(values, *posterior(covariance, Y, SIGMA, mean), name)
    right = stats.norm(values[0], SIGMA).logpdf(Y).sum(-1)
    np.testing.assert_allclose([each["total_log_likelihood"] for each in about], right, atol=1e-4)
    assert not any(each["search_failed"] or each["nan_evaluations"] for each in about)
    assert min(each["evaluations"] for each in about) == 1


@pytest.mark.statistical
def test_batches_and_matrices():
    """Draws of a variable without likelihood are draws from the prior."""
    row, column = CORRELATED[:2, :2], CORRELATED
    each = np.stack([CORRELATED, 3.0 * CORRELATED])
    with pm.Model():
        pm.MvNormal("one", np.zeros(3), cov=CORRELATED, shape=(2, 3))
        pm.MvNormal("each", np.arange(3.0), cov=each)
        pm.MatrixNormal("matrix", mu=np.ones((2, 3)), rowcov=row, colcov=column)
        step = EllipticalSlice()
    draws, about = chain(step, ["one", "each", "matrix"], draws=4000, number=1)
    assert all(one["evaluations"] == 1 for one in about)
    flat = {name: part.reshape(1, -1, 6) for name, part in draws.items()}
    compare_gaussian(flat["one"], np.zeros(6), np.kron(np.eye(2), CORRELATED), "one covariance")
    compare_gaussian(flat["each"], np.tile(np.arange(3.0), 2), np.kron(np.diag([1, 3]), CORRELATED), "one for each")
    compare_gaussian(flat["matrix"], np.ones(6), np.kron(row, column), "matrix")


@pytest.mark.long
@pytest.mark.statistical
def test_a_prior_that_depends_on_another_variable_of_ours():
    with pm.Model():
        a = pm.Normal("a", 1.0, 1.0)
        b = pm.Normal("b", a, 0.7)
        c = pm.Normal("c", 0.0, 1.0)
        pm.Normal("y", pm.math.stack([b, a + c]), SIGMA, observed=[2.0, 0.5])
        step = EllipticalSlice([c, b, a])
    assert [block._names for block in step._blocks] == [["a", "c"], ["b"]]
    draws, _ = chain(step, ["a", "b", "c"], draws=6000, number=2)
    prior = np.array([[1.0, 1.0, 0.0], [1.0, 1.49, 0.0], [0.0, 0.0, 1.0]])
    mean, covariance = posterior(prior, [2.0, 0.5], SIGMA, [1.0, 1.0, 0.0], rows=[[0, 1, 0], [1, 0, 1]])
    compare_gaussian(np.stack([draws[name] for name in "abc"], axis=-1), mean, covariance, "a chain of variables")


# --- beside other steps ---------------------------------------------------------------------------------------------


def scaled(whitened=False):
    """Mean, covariance and noise of f all depend on another variable."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 2.0)
        if whitened:
            white = pm.Normal("f_white", 0.0, 1.0, shape=3)
            f = pm.Deterministic("f", 0.5 * scale + pm.math.sqrt(scale) * (CHOLESKY @ white))
        else:
            f = pm.MvNormal("f", 0.5 * scale * np.ones(3), cov=scale * CORRELATED)
        pm.Normal("y", f, SIGMA * pm.math.sqrt(scale), observed=Y)
    return model


@cache
def known_scale():
    """Return the posterior means of `scale` and of f, by quadrature over the scale."""
    scale = np.linspace(1e-3, 12, 800)
    total = CORRELATED + SIGMA**2 * np.eye(3)
    log_p = np.array([stats.multivariate_normal.logpdf(Y, np.full(3, 0.5 * s), s * total) for s in scale])
    weight = np.exp(log_p - log_p.max()) * stats.halfnorm(scale=2.0).pdf(scale)
    weight /= weight.sum()
    means = np.array([posterior(s * CORRELATED, Y, SIGMA * s**0.5, 0.5 * s)[0] for s in scale])
    return weight @ scale, weight @ means


def compare_scaled(scale, f, what):
    compare(np.asarray(scale), known_scale()[0], f"{what}, scale")
    compare(np.asarray(f), known_scale()[1], f"{what}, f")


def by_turns(model, draws, number):
    """Update `scale` by a Metropolis step of this test, and f by our step method."""
    with model:
        step = EllipticalSlice(["f" if "f" in model.initial_point() else "f_white"])
    step.rng = np.random.default_rng(SEED + number)
    rng = np.random.default_rng(SEED + number + 1)
    log_p, point, rows = model.compile_logp(), model.initial_point(), []
    here = log_p(point)
    for _ in range(draws):
        for _ in range(2):
            other = {**point, "scale_log__": point["scale_log__"] + rng.standard_normal()}
            there = log_p(other)
            if there - here > -rng.standard_exponential():
                point, here = other, there
        point, _ = step.step(point)
        here = log_p(point)
        rows.append(point)
    scale = np.exp([row["scale_log__"] for row in rows])[None]
    if "f" in rows[0]:
        return scale, np.array([row["f"] for row in rows])[None]
    white = np.array([row["f_white"] for row in rows])[None]
    return scale, 0.5 * scale[..., None] + np.sqrt(scale)[..., None] * white @ CHOLESKY.T


@pytest.mark.long
@pytest.mark.long_cases("True")
@pytest.mark.statistical
@pytest.mark.parametrize("whitened", [False, True])
def test_everything_follows_another_variable(whitened):
    compare_scaled(*by_turns(scaled(whitened), 2000, number=3), "by turns")


@pytest.mark.long
@pytest.mark.statistical
def test_the_rest_is_left_to_nuts_in_one_process_and_in_two():
    """Statistics of both steps are in the trace, and the draws do not depend on the number of processes."""
    traces = []
    options = {
        "chains": 2,
        "random_seed": SEED + 5,
        "mp_ctx": "spawn",
    }  # JAX, which other tests use, does not support fork
    for cores in (1, 2):
        with scaled() as model:
            step = EllipticalSlice([model["f"]])
            traces.append(pm.sample(400, tune=200, cores=cores, step=[step], **options, **QUIET))
    compare_scaled(traces[0].posterior["scale"], traces[0].posterior["f"], "with NUTS")
    about = traces[0].sample_stats
    assert {"evaluations", "angle", "search_failed", "nan_evaluations", "total_log_likelihood", "tree_depth"} <= set(
        about
    )
    assert about["evaluations"].dtype.kind == "i"
    np.testing.assert_array_equal(traces[0].posterior["f"], traces[1].posterior["f"])


@pytest.mark.parametrize("kind", ["Latent", "LatentKron", "HSGP"])
def test_the_noise_behind_a_process_is_found(kind):
    """Variables are identified by what `prior` returned, even if others have the same name."""
    with pm.Model() as model:
        kernel = pm.Gamma("f_scale", 2, 1) * pm.gp.cov.ExpQuad(1, ls=pm.LogNormal("f_length"))
        if kind == "Latent":
            f = pm.gp.Latent(cov_func=kernel).prior("f", X=X)
        elif kind == "LatentKron":
            f = pm.gp.LatentKron(cov_funcs=[kernel]).prior("f", Xs=[X])
        else:
            f = pm.gp.HSGP(m=[5], c=2.0, cov_func=kernel).prior("f", X=X)
        pm.Normal("y", f, SIGMA, observed=Y)
        step = EllipticalSlice([f])
    (own,) = step.vars
    assert own.name.startswith("f_")
    point, (about,) = step.step(model.initial_point())
    assert point[own.name].any()
    right = stats.norm(model.compile_fn(model.replace_rvs_by_values([f]))(point)[0], SIGMA).logpdf(Y).sum()
    np.testing.assert_allclose(about["total_log_likelihood"], right, rtol=1e-6)


def test_several_updates_are_one_after_the_other():
    with pm.Model() as model:
        f = pm.MvNormal("f", np.zeros(3), cov=CORRELATED)
        pm.Normal("y", f, SIGMA, observed=Y)
        one, five = EllipticalSlice([f], rng=1), EllipticalSlice([f], rng=1, updates_per_draw=5)
        for wrong in (0, 1.5, True):
            with pytest.raises(ValueError, match="updates_per_draw must be a whole number"):
                EllipticalSlice([f], updates_per_draw=wrong)
    point, tried = model.initial_point(), 0
    for _ in range(5):
        point, (about,) = one.step(point)
        tried += about["evaluations"]
    other, (about,) = five.step(model.initial_point())
    np.testing.assert_array_equal(other["f"], point["f"])
    assert about["evaluations"] == tried


def test_it_is_never_chosen_unasked():
    assert EllipticalSlice.competence(None, True) == 0
    assert EllipticalSlice not in pm.step_methods.STEP_METHODS


def test_what_does_not_change_is_computed_once(monkeypatch):
    made = []
    real = module.PRIORS["MvNormalRV"]
    monkeypatch.setitem(module.PRIORS, "MvNormalRV", lambda *rest: made.append(1) or real(*rest))
    with pm.Model() as model:
        noise = pm.Data("noise", 0.5)
        f = pm.MvNormal("f", np.zeros(3), cov=pm.Data("cov", CORRELATED))
        pm.Normal("y", f, noise, observed=Y)
        step = EllipticalSlice([f])
    point, _ = step.step(model.initial_point())
    for _ in range(5):
        point, _ = step.step(point)
    assert len(made) == 1
    with model:
        pm.set_data({"cov": 1e-6 * np.eye(3)})  # data may change between runs
    for _ in range(30):
        point, _ = step.step({**point, "f": np.zeros(3)})
    assert len(made) == 2
    assert np.abs(point["f"]).max() < 0.02


# --- planted mistakes -----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.statistical
def test_a_prior_counted_twice_is_caught(monkeypatch):
    monkeypatch.setattr(module, "_all_but_the_prior", lambda model, variables: model.logp())
    with pm.Model():
        f = pm.Normal("f", 0.0, 1.0, shape=1)
        pm.Normal("y", f, SIGMA, observed=[1.0])
        draws, _ = chain(EllipticalSlice([f]), ["f"])
    with pytest.raises(AssertionError, match="standard errors off"):
        compare_gaussian(draws["f"], np.array([0.8]), np.array([[0.2]]), "twice")
    compare_gaussian(draws["f"], np.array([2 / 3]), np.array([[1 / 6]]), "the answer to another question")


@pytest.mark.long
@pytest.mark.statistical
def test_a_covariance_that_does_not_follow_is_caught(monkeypatch):
    real = module._Block._refresh
    monkeypatch.setattr(module._Block, "_refresh", lambda self, point: None if self._used_values else real(self, point))
    with pytest.raises(AssertionError, match="standard errors off"):
        compare_scaled(*by_turns(scaled(), 2000, number=3), "planted")


def stale(monkeypatch):
    """Return the error of the log-likelihood from which an update starts, after another step has moved."""
    model, gaps = scaled(), []
    with model:
        step = EllipticalSlice(["f"])

    def looks(move, nu, level, uniform, state, log_likelihood):
        gaps.append(abs(state.log_likelihood - log_likelihood(state.f)))
        return search(move, nu, level, uniform, state, log_likelihood)

    monkeypatch.setattr(module, "search", looks)
    point = model.initial_point()
    for number in range(20):
        point, _ = step.step(point)
        if number % 2:
            point = {**point, "scale_log__": point["scale_log__"] + 0.3}
    return max(gaps)


def test_a_likelihood_that_is_remembered_too_long_is_caught(monkeypatch):
    assert stale(monkeypatch) == 0.0
    real = module._Block.update

    def remembers(self, point, value, rng):
        point, value, info = real(self, point, getattr(self, "last", value), rng)
        self.last = value
        return point, value, info

    monkeypatch.setattr(module._Block, "update", remembers)
    assert stale(monkeypatch) > 0.1


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choose", "says"),
    [
        (lambda model: [model["scale"]], "scale has none: its prior is a HalfNormal. Leave it to NUTS"),
        (lambda model: ["nothing"], "nothing is not a free variable of the model. Those with a normal prior: f, g"),
        (lambda model: [model["y"]], "y is not a free variable"),
        (lambda model: [model["double"]], "double is not a free variable"),
        (lambda model: [model["bounded"]], "sampled through a Interval"),
        (lambda model: [model["walk"]], "its prior is a RandomWalk"),
    ],
)
def test_what_has_no_normal_prior_is_refused(choose, says):
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        f, g = pm.Normal("f", 0, scale), pm.Normal("g")
        pm.Normal("bounded", default_transform=pm.distributions.transforms.Interval(-1, 1))
        pm.GaussianRandomWalk("walk", init_dist=pm.Normal.dist(0, 1), steps=3)
        pm.Deterministic("double", f + g)
        pm.Normal("y", f + g, 1.0, observed=1.0)
        with pytest.raises(ValueError, match=says):
            EllipticalSlice(choose(model))


def test_a_model_without_any_is_refused():
    with pm.Model():
        pm.HalfNormal("scale")
        with pytest.raises(ValueError, match="no free variable with a normal prior"):
            EllipticalSlice()

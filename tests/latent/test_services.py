"""The services of `sample` for latent Gaussian models: seeds, stores, resumed runs, workers, stopping, Ctrl-C."""

from __future__ import annotations

import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import numpyro.distributions as dist
import pytest
from tinygp.kernels import quasisep

import ellipslice as es
from ellipslice.latent import pilot
from ellipslice.latent.posterior import WhitePosterior
from ellipslice.latent.terms import BYM2, GP, IID, RW1, Fixed
from latent_models import DATA, EDGES, GRAPH, MODELS, SD, Y, model
from stores import assert_same_stores

pytest.importorskip("zarr")

OPTIONS = {"draws": 24, "warmup": 10, "chains": 2, "seed": 3, "progress": False}
MANY = MODELS["five hyperparameters"]
NONE = MODELS["no hyperparameters"]


def fit(chosen=MANY, **options):
    return chosen.fit(**{**OPTIONS, **options})


def assert_same(one, two):
    for group in ("posterior", "sample_stats"):
        assert set(one.tree[group].data_vars) == set(two.tree[group].data_vars)
        for name, values in one.tree[group].data_vars.items():
            np.testing.assert_array_equal(values.values, two.tree[group][name].values, err_msg=str(name))


@pytest.fixture(scope="module")
def whole():
    return fit()


def test_a_seed_gives_the_same_draws(whole):
    assert_same(whole, fit())
    other = fit(seed=4)
    assert not np.array_equal(other.tree.posterior.region.values, whole.tree.posterior.region.values)
    assert whole.tree.attrs["seed"] == 3


def test_chains_differ_and_do_not_depend_on_their_number(whole):
    alone = fit(chains=1)
    for name, values in alone.tree.posterior.data_vars.items():
        np.testing.assert_array_equal(values.values[0], whole.tree.posterior[name].values[0], err_msg=str(name))
    assert not np.array_equal(whole.tree.posterior.region[0], whole.tree.posterior.region[1])


def test_a_model_that_is_made_again_gives_the_same_draws(whole):
    terms = MANY.definition.predictor.terms
    again = model("negative_binomial", list(terms))
    assert_same(whole, fit(again))


def test_thinning_keeps_every_third_draw(whole):
    thinned = fit(thin=3, draws=8)
    for name, values in thinned.tree.posterior.data_vars.items():
        np.testing.assert_array_equal(values.values, whole.tree.posterior[name].values[:, 2::3], err_msg=str(name))


def test_threads_give_the_same_draws(whole):
    with ThreadPoolExecutor(3) as executor:
        assert_same(whole, fit(executor=executor))


@pytest.mark.long
@pytest.mark.parametrize("name", ["five hyperparameters", "flat fixed effects"])
def test_processes_give_the_same_draws(name):
    """Everything that the workers need can be pickled."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        assert_same(fit(MODELS[name]), fit(MODELS[name], executor=executor))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
def test_forked_processes_raise():
    """JAX computes hyperparameters, and its threads do not exist in a forked process."""
    with (
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as executor,
        pytest.raises(RuntimeError, match="updates with this prior cannot be made in workers that were forked"),
    ):
        fit(executor=executor)


def test_a_stopping_rule():
    found = fit(draws=None, until=es.Until(effective_sample_size=50, max_draws=400))
    assert found.tree.attrs["stopped_by"] == "goals"
    assert found.summary().ess.min() > 40
    with pytest.raises(ValueError, match="draws=24 was given with until="):
        fit(until=es.Until(effective_sample_size=50))


def test_a_model_without_hyperparameters():
    found = fit(NONE, draws=50)
    assert set(found.tree.posterior.data_vars) == {"fixed"}
    assert (found.tree.sample_stats.factorisations == 0).all()
    assert list(found.summary().index) == ["Intercept", "x"]
    comparison = found.compare_with_laplace()
    assert comparison.hyperparameters == []
    assert np.isfinite(comparison.table.to_numpy()).all()
    assert found.predict(draws=10).expected.shape == (2, 5, 24)


def test_ctrl_c_returns_draws(monkeypatch):
    """The signal comes during an evaluation of the main run."""
    point_around, calls = WhitePosterior.point_around, []

    def interrupted(self, around, z):
        calls.append(None)
        if len(calls) == 400:
            signal.raise_signal(signal.SIGINT)
        return point_around(self, around, z)

    def after(*arguments):
        found = pilot.run_pilot(*arguments)
        monkeypatch.setattr(WhitePosterior, "point_around", interrupted)
        return found

    monkeypatch.setattr("ellipslice.latent.model.run_pilot", after)
    with pytest.warns(UserWarning, match=r"stopped by Ctrl-C: returning \d+ of 5,000 draws per chain"):
        found = fit(draws=5000)
    count = found.tree.posterior.sizes["draw"]
    assert 0 < count < 1000
    monkeypatch.undo()
    assert_same(fit(draws=count), found)


# --- stores -----------------------------------------------------------------------------------------------------------


def test_a_store_holds_what_memory_holds(whole, tmp_path):
    assert_same(whole, fit(store=tmp_path / "run.zarr"))


@pytest.mark.short_cases("constraints and a trend")
@pytest.mark.parametrize("name", ["five hyperparameters", "no hyperparameters", "constraints and a trend"])
def test_a_resumed_run_is_the_same_to_the_bit(name, tmp_path, monkeypatch):
    """It needs no pilot run."""
    chosen = MODELS[name]
    fit(chosen, store=tmp_path / "whole.zarr")
    fit(chosen, store=tmp_path / "parts.zarr", draws=7)
    monkeypatch.setattr("ellipslice.latent.model.run_pilot", None)
    for draws in (8, 24):
        found = chosen.resume(tmp_path / "parts.zarr", draws=draws, progress=False)
    assert_same_stores(tmp_path / "whole.zarr", tmp_path / "parts.zarr")
    assert found.tree.attrs["model"] == repr(chosen)
    assert found.move.settings.kicks >= 2
    assert found.summary().shape[0] > 0


def terms(prior=SD, edges=EDGES, **options):
    return [
        Fixed(["1", "x"], sd=2.0),
        RW1("t", prior=prior, **options),
        BYM2("region", graph=edges, regions=GRAPH["regions"], prior=SD),
    ]


def test_a_stored_fit_is_opened_without_a_run(whole, tmp_path, monkeypatch):
    fit(store=tmp_path / "run.zarr")
    for name in ("ellipslice.latent.model.sample", "ellipslice.latent.stored_model.resume"):
        monkeypatch.setattr(name, None)
    found = MANY.open(tmp_path / "run.zarr")
    assert_same(whole, found)
    np.testing.assert_array_equal(found.predict(seed=1).predictive, whole.predict(seed=1).predictive)
    assert found.store == tmp_path / "run.zarr"
    with pytest.raises(ValueError, match="which is not a fit of LatentGaussianModel"):
        NONE.open(tmp_path / "run.zarr")


def test_variables_of_a_formula_are_given_or_those_of_the_caller():
    graph = [*EDGES, ("e", "f")]
    given = {"data": {"y": Y["poisson"], "region": DATA["region"]}, "family": "poisson"}
    own = es.LatentGaussianModel("y ~ bym2(region, graph=W)", variables={"W": graph}, **given)
    assert repr(own) == repr(es.LatentGaussianModel("y ~ bym2(region, graph=graph)", **given))
    with pytest.raises(ValueError, match="there is no variable 'graph'"):
        es.LatentGaussianModel("y ~ bym2(region, graph=graph)", variables={"W": graph}, **given)


OTHERS = {
    "another prior": lambda: model("poisson", terms(prior=dist.LogNormal(-0.5, 0.8))),
    "a prior of another family": lambda: model("poisson", terms(prior=dist.HalfNormal(1.0))),
    "another graph": lambda: model("poisson", terms(edges=[*EDGES[:-1], ("c", "d"), ("d", "e")])),
    "another scale": lambda: model("poisson", terms(scale_model=False)),
    "another sd of fixed effects": lambda: model("poisson", [Fixed(["1", "x"], sd=3.0), *terms()[1:]]),
    "other responses": lambda: model("poisson", terms(), Y["poisson"] + 1),
    "another exposure": lambda: model("poisson", terms(), exposure=np.linspace(0.5, 2.1, 24)),
    "another column": lambda: model("poisson", [Fixed(["1", "t"], sd=2.0), *terms()[1:]]),
    "another family": lambda: model("negative_binomial", terms()),
    "another term": lambda: model("poisson", [*terms()[:2], IID("region", prior=SD)]),
    "fewer responses": lambda: model("poisson", terms(), np.where(np.arange(24) == 3, np.nan, Y["poisson"])),
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("fits") / "run.zarr"
    fit(model("poisson", terms()), store=path, draws=5)
    return path


@pytest.mark.parametrize("name", OTHERS)
def test_another_model_is_not_resumed(name, stored):
    with pytest.raises(ValueError, match=r"store|created with"):
        OTHERS[name]().resume(stored, draws=6, progress=False)


def matern(scale):
    return quasisep.Matern32(scale)


def smoother(scale):
    return quasisep.Matern52(scale)


def rougher(scale):
    return quasisep.Matern32(scale, sigma=1.1)


def smooth(kernel=matern, inputs=DATA["x"]):
    """Return a model with a Gaussian process, whose bases do not depend on kernel and inputs."""
    return model("poisson", [Fixed("1", sd=2.0), GP(inputs, name="x", kernel=kernel, prior={"scale": SD})])


def test_another_kernel_or_other_inputs_are_not_resumed(tmp_path):
    path = tmp_path / "run.zarr"
    fit(smooth(), store=path, draws=5)
    smooth().resume(path, draws=6, progress=False)
    for other in (smooth(smoother), smooth(rougher), smooth(inputs=1.5 * DATA["x"])):
        with pytest.raises(ValueError, match=r"store|created with"):
            other.resume(path, draws=7, progress=False)


def test_a_column_of_the_data_may_change_after_the_model_was_made():
    data = {name: values.copy() for name, values in DATA.items()}
    own = es.LatentGaussianModel(
        Y["negative_binomial"].copy(), [Fixed("1"), IID("g")], data=data, family="negative_binomial"
    )
    first = fit(own)
    data["g"][:] = "p"
    assert_same(first, fit(own))

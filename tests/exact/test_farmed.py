"""Chains that run on workers are bit-identical to chains that run in one process."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest

import ellipslice as es
from catalogue import PRIORS
from ellipslice.engines.compiled import chain
from ellipslice.engines.workers import engine as workers_engine
from ellipslice.engines.workers import remote
from farmed import PRIOR, Pickled, bowl, bowl_of, slow_bowl, smooth, traced_bowl

OPTIONS = {"draws": 60, "warmup": 7, "chains": 3, "seed": 4, "progress": False}


def same(one, two):
    for group in ("posterior", "sample_stats"):
        assert one[group].to_dataset().drop_attrs().identical(two[group].to_dataset().drop_attrs()), group
    told = (
        "draws",
        "updates",
        "evaluations",
        "proposals",
        "nan_evaluations",
        "failed_searches",
        "engine",
        "stopped_by",
    )
    assert [one.attrs[name] for name in told] == [two.attrs[name] for name in told]


@pytest.fixture(autouse=True)
def short_stretches(monkeypatch, request):
    """Make the tasks as short as possible, so that there are many. Pilot runs are long, so their tasks are longer."""
    pilot = "reference" in request.node.name
    monkeypatch.setattr(workers_engine, "TASK_SECONDS", 0.2 if pilot else 0.0)
    monkeypatch.setattr(chain, "TURN_SECONDS", 0.0)


def batches(f):
    return -4.0 * np.square(f - 0.3).sum(axis=-1)


def negative(f):
    with np.errstate(invalid="ignore"):
        return float(np.log(f[0] + 0.5) - np.square(f).sum())


RUNS = {
    "host": (bowl, PRIOR, {}),
    "compiled": (traced_bowl, PRIOR, {}),
    "planes": (es.likelihoods.Poisson(np.arange(8)), PRIOR, {"thin": 3}),
    "vectorized": (batches, PRIOR, {"engine": "host", "vectorized": True}),
    "any move": (bowl, PRIOR, {"move": es.moves.Cycle(es.moves.EllipticalSlice(), es.moves.NealMetropolis(0.3))}),
    "blocks": (bowl, PRIOR, {"move": es.moves.Local.random(2, move=es.moves.EllipticalSlice())}),
    "named": (
        lambda f, b: float(-np.square(f + b - 1.0).sum()),
        es.Stack({"f": es.Diagonal(np.ones(3)), "b": es.Diagonal(10.0)}),
        {"engine": "host"},
    ),
    "truncated": (bowl, es.TruncatedGaussian.box(PRIOR, lower=-1.0), {}),
    "carried": (
        es.likelihoods.LinearPredictor(np.ones((3, 8)), es.likelihoods.Gaussian(np.ones(3), 0.5)),
        PRIOR,
        {"engine": "host"},
    ),
    "reference": (bowl, PRIOR, {"reference": "pilot", "draws": 30}),
    "goals": (bowl, PRIOR, {"until": es.Until(effective_sample_size=60, max_draws=2000), "draws": None}),
    "nan": (negative, PRIOR, {"engine": "host", "initial": np.full(8, 0.1)}),
}


@pytest.mark.long_cases("reference", "goals", "planes", "compiled", "any move")
@pytest.mark.filterwarnings("ignore:.*gave NaN")
@pytest.mark.parametrize("name", RUNS)
def test_the_same_bits(name):
    log_likelihood, prior, options = RUNS[name]
    options = {**OPTIONS, **options}
    alone = es.sample(log_likelihood, prior, **options)
    with ThreadPoolExecutor(2) as pool:
        same(alone, es.sample(log_likelihood, prior, executor=pool, **options))


@pytest.mark.long_cases("planes", "compiled", "truncated")
@pytest.mark.parametrize("name", ["host", "compiled", "planes", "truncated"])
def test_the_same_bits_through_pickle(name):
    log_likelihood, prior, options = RUNS[name]
    options = {**OPTIONS, **options}
    pool = Pickled(forget=lambda number: number % 5 == 0)
    same(es.sample(log_likelihood, prior, **options), es.sample(log_likelihood, prior, executor=pool, **options))
    assert pool.sent > 100


@pytest.mark.long
def test_a_job_is_sent_once():
    """A dense prior of 300 elements has 720 kB, and a state 2.4 kB."""
    x = np.arange(300)
    prior, pool = es.Dense(np.exp(-np.abs(np.subtract.outer(x, x)) / 50.0)), Pickled()
    es.sample(first_only, prior, executor=pool, **OPTIONS)
    assert len(pool.bytes) > 60
    assert sum(size > 300_000 for size in pool.bytes) == 1
    assert max(sorted(pool.bytes)[:-1]) < 10_000


def first_only(f):
    return float(-np.square(f[0] - 1.0))


@pytest.mark.parametrize("chains", [1, 3])
@pytest.mark.parametrize("look_ahead", [2, 5, 40])
def test_look_ahead_by_workers_changes_no_bit(look_ahead, chains):
    options = {**OPTIONS, "chains": chains}
    alone = es.sample(bowl, PRIOR, **options)
    with ThreadPoolExecutor(4) as pool:
        same(alone, es.sample(bowl, PRIOR, executor=pool, look_ahead=look_ahead, **options))


@pytest.mark.filterwarnings("ignore:.*found no acceptable point", "ignore:.*gave NaN", "ignore:.*not a function of f")
def test_a_search_without_end_is_given_up_by_workers_too():
    """After the first update the likelihood is NaN.

    It depends on points, not on calls, whose order depends on the threads.
    """
    start = np.full(PRIOR.size, 0.1)  # equal to the mean, so it is 0 inside the sampler, without rounding
    options = {**OPTIONS, "draws": 3, "warmup": 0, "chains": 1, "engine": "host", "initial": start}
    first = es.sample(bowl, PRIOR, **{**options, "draws": 1}).posterior.f.to_numpy()[0, 0]
    accepted = []

    def dies(f):
        if np.array_equal(f, first):
            accepted.append(f)
            return bowl(f) if len(accepted) == 1 else np.nan
        return bowl(f) if np.array_equal(f, start) else np.nan

    with ThreadPoolExecutor(2) as pool:
        tree = es.sample(dies, PRIOR, executor=pool, look_ahead=7, **options)
    assert tree.sample_stats.search_failed.to_numpy().tolist() == [[False, True, True]]
    assert tree.sample_stats.evaluations.to_numpy()[0, 1:].tolist() == [1000, 1000]
    assert tree.sample_stats.nan_evaluations.to_numpy()[0, 1:].tolist() == [1000, 1000]


def test_one_slow_chain_uses_many_workers_unasked(monkeypatch):
    """Evaluations overlap, so the run takes less time than the sum of their times."""
    monkeypatch.setattr(workers_engine, "SLOW_EVALUATION_SECONDS", 0.005)
    options = {**OPTIONS, "chains": 1, "draws": 40}
    alone = es.sample(slow_bowl, PRIOR, **options)
    with ThreadPoolExecutor(8) as pool:
        ahead = es.sample(slow_bowl, PRIOR, executor=pool, **options)
    same(alone, ahead)
    assert ahead.attrs["sampling_time"] < 0.6 * alone.attrs["sampling_time"]


@pytest.mark.long_cases("None")
@pytest.mark.parametrize("look_ahead", [None, 3])
def test_lost_workers_cost_their_work_and_nothing_else(look_ahead):
    class KilledWorker(Exception):  # noqa: N818
        """An exception with the name of Dask's, by which it is recognised."""

    def trouble(number):
        if number % 7 in (3, 4):
            raise KilledWorker

    pool = Pickled(trouble)
    alone = es.sample(bowl, PRIOR, **OPTIONS)
    same(alone, es.sample(bowl, PRIOR, executor=pool, look_ahead=look_ahead, **OPTIONS))
    assert pool.sent > 100


@pytest.mark.parametrize("look_ahead", [None, 3])
def test_a_broken_executor_is_made_anew(look_ahead):
    made = []

    def make():
        made.append(Pickled(break_down))
        return made[-1]

    def break_down(number):
        if number > 20:
            raise BrokenProcessPool("a process was terminated abruptly")

    alone = es.sample(bowl, PRIOR, **OPTIONS)
    same(alone, es.sample(bowl, PRIOR, executor=make, look_ahead=look_ahead, **OPTIONS))
    assert len(made) > 5


@pytest.mark.short_cases("host")
@pytest.mark.parametrize("name", ["host", "planes"])
def test_a_store_does_not_know_who_made_it(name, tmp_path):
    """A store that was begun without workers is resumed with them, and the other way round."""
    pytest.importorskip("zarr")
    from stores import assert_same_stores

    log_likelihood, prior, options = RUNS[name]
    options = {**OPTIONS, **options}
    shorter = {**options, "draws": 20}
    es.sample(log_likelihood, prior, store=tmp_path / "alone.zarr", **options)
    es.sample(log_likelihood, prior, store=tmp_path / "one.zarr", **shorter)
    es.resume(tmp_path / "one.zarr", log_likelihood, draws=60, executor=Pickled(), progress=False)
    assert_same_stores(tmp_path / "alone.zarr", tmp_path / "one.zarr")
    es.sample(log_likelihood, prior, store=tmp_path / "two.zarr", executor=Pickled(), **shorter)
    es.resume(tmp_path / "two.zarr", log_likelihood, draws=60, progress=False)
    assert_same_stores(tmp_path / "alone.zarr", tmp_path / "two.zarr")


@pytest.mark.parametrize("name", [name for name in PRIORS if "," not in name])
def test_every_prior_can_be_sent(name):
    """A prior that was sent to a worker draws the same there."""
    prior = PRIORS[name]()
    sent = pickle.loads(pickle.dumps(prior))
    draws = [np.asarray(one.draw_zero_mean(np.random.default_rng(0), 5)) for one in (prior, sent)]
    np.testing.assert_array_equal(*draws)


def test_nothing_stays_behind():
    with ThreadPoolExecutor(2) as pool:
        es.sample(bowl, PRIOR, executor=pool, **OPTIONS)
    assert not remote._payloads


# --- functions that run chains --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings(
    "ignore:the particles mix slowly", "ignore:the replicates differ", "ignore:annealed importance"
)
def test_evidence_by_workers_is_the_same_to_the_bit():
    options = {"particles": 40, "replicates": 4, "updates_per_temperature": 2, "seed": 3}
    alone, workers = es.evidence(bowl, PRIOR, **options), Pickled()
    made = es.evidence(bowl, PRIOR, executor=workers, **options)
    assert (made.log_z, made.standard_error, made.ais_log_z) == (alone.log_z, alone.standard_error, alone.ais_log_z)
    np.testing.assert_array_equal(made.draws, alone.draws)
    assert made.evaluations == alone.evaluations
    assert workers.sent > 20


@pytest.mark.filterwarnings(
    "ignore:the particles mix slowly", "ignore:the replicates differ", "ignore:annealed importance"
)
def test_evidence_sends_points_in_pieces():
    """One task for each point would cost more than a quick evaluation."""
    workers = Pickled()
    made = es.evidence(
        bowl, PRIOR, executor=workers, particles=400, replicates=4, updates_per_temperature=1, check=False, seed=3
    )
    assert workers.sent < made.evaluations / 4


@pytest.mark.parametrize(
    ("log_likelihood", "options", "message"),
    [
        (traced_bowl, {}, "JAX cannot trace. It can trace this one.*Leave executor out"),
        (bowl, {"vectorized": True}, "vectorized=True passes all particles to one call"),
        (bowl, {"timeout": -1}, "positive number of seconds"),
    ],
)
def test_evidence_says_when_workers_are_of_no_use(log_likelihood, options, message):
    with pytest.raises(ValueError, match=message):
        es.evidence(log_likelihood, PRIOR, executor=Pickled(), particles=40, **options)


@pytest.mark.long
@pytest.mark.parametrize("unknown", [False, True])
def test_a_gaussian_process_by_workers_is_the_same_to_the_bit(unknown, tmp_path, short_pilots):
    pytest.importorskip("tinygp")
    from numpyro.distributions import LogNormal
    from tinygp.kernels import quasisep

    x = np.array([0.0, 3.0, 1.0, 2.0, 4.0])  # not sorted: the payload contains them in sorted order
    kernel, parameters = (smooth, {"amplitude": LogNormal(0.0, 1.0)}) if unknown else (quasisep.Matern32(2.0), None)
    model = es.gp.LatentGP(kernel, bowl_of, parameters=parameters)
    options = {"draws": 6, "warmup": 2, "chains": 2, "seed": 5, "progress": False}
    fit = model.fit(x, np.sin(x), **options)
    workers, store = Pickled(), tmp_path / "fit.zarr"
    made = model.fit(x, np.sin(x), executor=workers, store=store, **options)
    assert workers.sent > 2
    np.testing.assert_array_equal(made.tree.posterior.f, fit.tree.posterior.f)
    again = model.resume(store, x, np.sin(x), executor=Pickled(), draws=8, progress=False)
    np.testing.assert_array_equal(again.tree.posterior.f[:, :6], fit.tree.posterior.f)

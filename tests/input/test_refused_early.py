"""A rejected run creates no store, damages none, and is rejected before any task is sent to workers."""

from __future__ import annotations

from concurrent.futures import Executor, Future

import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from ellipslice.moves import ControlVariables, Cycle, Hamiltonian, LineSlice, Local
from stores import contents

X = np.linspace(0, 1, 6)
K = np.exp(-abs(X[:, None] - X) / 0.4)
DENSE = es.Dense(K)
STATIONARY = es.Stationary(lambda lag: np.exp(-np.linalg.norm(lag, axis=-1)), 6, 0.2)
SUM = es.Sum(es.Dense(K), es.Diagonal(np.ones(6)))
BOX = es.TruncatedGaussian.box(DENSE, lower=0.0)
DETERMINED = es.SparsePrecision.random_walk(6, precision=2.0)
DRAWN = es.FromDraws(lambda rng: rng.standard_normal(6), 6)
OPTIONS = {"draws": 5, "warmup": 2, "chains": 2, "seed": 1, "progress": False}


def traced(f):
    return -jnp.sum((f - 1.0) ** 2)


def on_the_host(f):
    return -float(np.square(np.asarray(f) - 1.0).sum())


def smooth(a, b):
    return jnp.exp(-0.5 * (a - b) ** 2)


def narrow(f):
    """A log-likelihood that is finite at the initial states only in double precision."""
    return -jnp.sum((1e25 * f) ** 2)


REFUSED = {
    "gradients": (on_the_host, DENSE, {"move": Hamiltonian(0.2)}, TypeError, "needs gradients"),
    "gradients, in a cycle": (
        on_the_host,
        DENSE,
        {"move": Cycle(Hamiltonian(0.2), es.moves.EllipticalSlice())},
        TypeError,
        "needs gradients",
    ),
    "Hamiltonian, prior": (traced, STATIONARY, {"move": Hamiltonian(0.2)}, TypeError, "needs a map from the prior"),
    "Local, Stationary": (traced, STATIONARY, {"move": Local.contiguous(3)}, TypeError, "Local needs the prior of a"),
    "Local, Sum": (on_the_host, SUM, {"move": Local.contiguous(3)}, TypeError, "Local needs the prior of a block"),
    "Local, FromDraws": (on_the_host, DRAWN, {"move": Local.contiguous(3)}, TypeError, "Local needs the prior"),
    "Local, name": (traced, DENSE, {"move": Local([["g"]])}, ValueError, "g"),
    "Local, values": (traced, DENSE, {"move": Local([[0, 1]])}, ValueError, "blocks leave out 4 of 6"),
    "Local, determined": (traced, DETERMINED, {"move": Local([[0], [1, 2, 3, 4, 5]])}, ValueError, "."),
    "LineSlice, Sum": (traced, SUM, {"move": LineSlice()}, TypeError, "density along a line"),
    "controls": (traced, DENSE, {"move": ControlVariables(smooth, X, [0.0, 1.0])}, ValueError, "kernel"),
    "look_ahead": (traced, DENSE, {"move": LineSlice(), "look_ahead": 2}, ValueError, "look_ahead=2"),
    "look_ahead, host": (on_the_host, DENSE, {"look_ahead": 2}, ValueError, "look_ahead=2"),
    "look_ahead, box": (traced, BOX, {"look_ahead": 2}, ValueError, "look_ahead=2"),
    "log_concave": (on_the_host, DENSE, {"log_concave": True}, ValueError, "log_concave=True"),
    "one chain": (
        traced,
        DENSE,
        {"chains": 1, "draws": None, "until": es.Until(rhat=1.1)},
        ValueError,
        "compares chain",
    ),
    "keep": (traced, DENSE, {"keep": lambda f: {}}, ValueError, "keep returned an empty dict"),
    "dims": (traced, DENSE, {"dims": {"g": ["q"]}}, ValueError, "dims names 'g'"),
    "initial": (traced, DENSE, {"initial": np.zeros(5)}, ValueError, "initial"),
    "engine": (on_the_host, DENSE, {"engine": "compiled"}, ValueError, 'engine="compiled" was given'),
    "batched": (traced, DENSE, {"engine": "batched", "move": LineSlice()}, ValueError, "not a single search"),
    "constraints": (traced, BOX, {"move": LineSlice()}, TypeError, "ignores the constraints"),
    "precision": (
        narrow,
        DENSE,
        {"engine": "batched", "precision": "single", "initial": np.ones(6)},
        ValueError,
        "in single precision",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_run_leaves_no_store(name, tmp_path):
    pytest.importorskip("zarr")
    log_likelihood, prior, options, kind, message = REFUSED[name]
    path = tmp_path / "run.zarr"
    with pytest.raises(kind, match=message):
        es.sample(log_likelihood, prior, store=path, **{**OPTIONS, **options})
    assert not list(tmp_path.iterdir())


def test_a_store_that_is_there_is_not_touched(tmp_path):
    pytest.importorskip("zarr")
    path = tmp_path / "run.zarr"
    es.sample(on_the_host, DENSE, store=path, **OPTIONS)
    before = contents(path)
    with pytest.raises(FileExistsError, match="holds a run already"):
        es.sample(on_the_host, DENSE, store=path, move=Hamiltonian(0.2), **OPTIONS)
    with pytest.raises(ValueError, match="was created with"):
        es.resume(path, on_the_host, move=Local.contiguous(3), progress=False)
    assert contents(path) == before
    assert [file.name for file in tmp_path.iterdir()] == ["run.zarr"]
    assert es.resume(path, on_the_host, draws=6, progress=False).posterior.sizes["draw"] == 6


def test_the_corrected_run_has_its_store(tmp_path):
    pytest.importorskip("zarr")
    with pytest.raises(TypeError, match="needs gradients"):
        es.sample(on_the_host, DENSE, move=Hamiltonian(0.2), store=tmp_path / "run.zarr", **OPTIONS)
    tree = es.sample(on_the_host, DENSE, store=tmp_path / "run.zarr", **OPTIONS)
    assert tree.posterior.sizes["draw"] == 5


class Unasked(Executor):
    """An executor that records the tasks that it receives."""

    def __init__(self):
        self.asked = []

    def submit(self, function, /, *arguments, **named):
        self.asked.append(function.__name__)
        future: Future = Future()
        future.set_result(function(*arguments, **named))
        return future


@pytest.mark.parametrize(
    "name",
    [
        *(
            "gradients",
            "Local, Stationary",
            "LineSlice, Sum",
            "look_ahead",
            "look_ahead, box",
            "log_concave",
            "one chain",
        ),
        *("engine", "constraints"),
    ],
)
def test_workers_are_not_asked_before_a_run_is_refused(name):
    log_likelihood, prior, options, kind, message = REFUSED[name]
    workers = Unasked()
    with pytest.raises(kind, match=message):
        es.sample(log_likelihood, prior, executor=workers, **{**OPTIONS, **options})
    assert set(workers.asked) <= {"getpid"}


def test_a_reference_is_not_fitted_before_concave_is_refused():
    workers = Unasked()
    with pytest.raises(ValueError, match="log_concave=True"):
        es.sample(on_the_host, DENSE, reference="pilot", log_concave=True, executor=workers, **OPTIONS)
    assert set(workers.asked) <= {"getpid"}


def test_goals_that_one_chain_cannot_reach_are_refused_before_a_store_is_resumed(tmp_path):
    pytest.importorskip("zarr")
    es.sample(on_the_host, DENSE, store=tmp_path / "run.zarr", **{**OPTIONS, "chains": 1})
    workers = Unasked()
    with pytest.raises(ValueError, match="compares chains"):
        es.resume(tmp_path / "run.zarr", on_the_host, until=es.Until(rhat=1.1), executor=workers, progress=False)
    assert not workers.asked

"""A run that begins in the middle of a chain, or is told to go on, makes the same chain to the bit."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.engines.device.engine import BatchedEngine
from ellipslice.engines.host.engine import HostEngine
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import EllipticalSlice, State
from ellipslice.posterior import Posterior

GENERATOR = np.random.default_rng(0)
SIZE = 300  # blocks of 512 updates
PRIOR = es.Dense(np.exp(-0.5 * np.subtract.outer(np.arange(SIZE), np.arange(SIZE)) ** 2 / 30**2), mean=0.3)
COUNTS = GENERATOR.poisson(2.0, SIZE)

LIKELIHOODS = {
    "traced": lambda f: -jnp.sum((f - 0.5) ** 2),
    "planes": es.likelihoods.Poisson(COUNTS),
    "carried": es.likelihoods.Linear(GENERATOR.standard_normal((5, SIZE)), es.likelihoods.Gaussian(np.ones(5), 0.5)),
}


def drive(run, pieces):
    while not run.finished:
        run.advance()
        pieces.extend(run.take())


def columns(pieces, chain=0):
    """Every field of one chain, with the number of the first update."""
    own = [piece for piece in pieces if piece.chain == chain]
    fields = [[piece.f, piece.log_likelihood, piece.proposals, *piece.info] for piece in own]
    return own[0].first, [np.concatenate(parts) for parts in zip(*fields, strict=True)]


def begin(engine, name="traced", move=None):
    posterior = Posterior(PRIOR, LIKELIHOODS[name])
    runner = engine(posterior)
    start = posterior.points(np.random.default_rng(1), 1)[0]
    return runner, move or EllipticalSlice(), State(start, runner.evaluate(start))


@pytest.mark.long_cases("CompiledEngine-planes", "HostEngine-traced")
@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("engine", [CompiledEngine, HostEngine])
def test_a_run_begins_anywhere(engine, name):
    with jax_settings():
        runner, move, start = begin(engine, name)
        updates, whole = 600 if engine is CompiledEngine else 540, []
        drive(runner.run(move, 7, [2, 3], [start, start], updates), whole)
        _, one = columns(whole)
        _, two = columns(whole, 1)
        for first, second in [(1, 10), (511, 512), (530, 500)]:
            made = [first, second]
            # From an update before, as stores do: what a search learned of its last point is then the same, too.
            states = [
                State(part[0][n - 1].copy(), float(part[1][n - 1])) for part, n in zip((one, two), made, strict=True)
            ]
            again = []
            drive(runner.run(move, 7, [2, 3], states, updates, done=made), again)
            for chain, (expected, n) in enumerate(zip((one, two), made, strict=True)):
                since, got = columns(again, chain)
                assert since == n
                for values, wanted in zip(got, expected, strict=True):
                    np.testing.assert_array_equal(values[1:], wanted[n + 1 :])
                np.testing.assert_array_equal(got[0][0], expected[0][n])


@pytest.mark.long_cases("HostEngine-traced")
@pytest.mark.parametrize("name", ["traced", "planes"])
@pytest.mark.parametrize("engine", [CompiledEngine, HostEngine])
def test_a_run_goes_on(engine, name):
    with jax_settings():
        runner, move, start = begin(engine, name)
        whole, parts = [], []
        drive(runner.run(move, 7, [2], [start], 600), whole)
        run = runner.run(move, 7, [2], [start], 3)
        for updates in (3, 100, 512, 600):
            run.extend(updates)
            drive(run, parts)
        for values, wanted in zip(columns(parts)[1], columns(whole)[1], strict=True):
            np.testing.assert_array_equal(values, wanted)


@pytest.mark.long_cases("CompiledEngine-local", "HostEngine-line")
@pytest.mark.parametrize(
    "move",
    [
        es.moves.Cycle(EllipticalSlice(), es.moves.NealMetropolis(0.3)),
        es.moves.LineSlice(),
        es.moves.Local.random(2, move=EllipticalSlice()),
    ],
    ids=["cycle", "line", "local"],
)
@pytest.mark.parametrize("engine", [CompiledEngine, HostEngine])
def test_any_move_begins_anywhere(engine, move):
    x = np.linspace(0, 1, 5)
    prior = es.Dense(np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.3**2) + 0.1 * np.eye(5))
    posterior = Posterior(prior, LIKELIHOODS["traced"])
    with jax_settings():
        runner = engine(posterior)
        start = np.zeros(5)
        whole, again = [], []
        drive(runner.run(move, 1, [0], [State(start, runner.evaluate(start))], 40), whole)
        _, expected = columns(whole)
        state = State(expected[0][16].copy(), float(expected[1][16]))
        drive(runner.run(move, 1, [0], [state], 40, done=[17]), again)
        for values, wanted in zip(columns(again)[1], expected, strict=True):
            np.testing.assert_array_equal(values, wanted[17:])


@pytest.mark.long
@pytest.mark.long_cases("True")
@pytest.mark.parametrize("double", [True, False])
def test_chains_together_go_on_from_the_start_of_a_block(double, monkeypatch):
    monkeypatch.setattr("ellipslice.engines.device.engine.block_length", lambda numbers: 16)
    posterior = Posterior(PRIOR, LIKELIHOODS["traced"])
    with jax_settings():
        engine = BatchedEngine(posterior, double=double)
        points = list(posterior.points(np.random.default_rng(1), 3))
        starts = [State(f, engine.evaluate(f)) for f in points]
        options = {"warmup": 5, "thin": 2}
        whole, again, longer = [], [], []
        drive(engine.run(EllipticalSlice(), 7, range(3), starts, 60, **options), whole)
        middle = whole[2]
        states = [State(np.asarray(f), float(v)) for f, v in zip(*middle.before, strict=True)]
        drive(engine.run(EllipticalSlice(), 7, range(3), states, 60, **options, done=[middle.updates] * 3), again)
        assert_same_batches(again, whole[2:])
        run = engine.run(EllipticalSlice(), 7, range(3), starts, 41, **options)
        drive(run, longer)
        run.extend(60)
        drive(run, longer)
    assert longer[2].updates == longer[3].updates == 32  # the block that was cut short is made again
    assert_same_batches(longer[:2] + longer[3:], whole)


def assert_same_batches(got, expected):
    assert [batch.first for batch in got] == [batch.first for batch in expected]
    for one, two in zip(got, expected, strict=True):
        count = len(two.log_likelihood)
        assert len(one.log_likelihood) == count
        np.testing.assert_array_equal(one.f[:count], two.f[:count])
        np.testing.assert_array_equal(one.log_likelihood, two.log_likelihood)
        for values, wanted in zip(one.info, two.info, strict=True):
            np.testing.assert_array_equal(values, wanted)
        assert one.totals == two.totals

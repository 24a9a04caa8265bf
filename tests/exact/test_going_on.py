"""A run that starts in the middle of a chain, or is extended, makes a bit-identical chain."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from ellipslice.engines.base import Checkpoint, RunSpec
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.engines.device.engine import BatchedEngine
from ellipslice.engines.host.engine import HostEngine
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import EllipticalSlice, State
from ellipslice.posterior import Posterior
from engine_rows import columns, finish

GENERATOR = np.random.default_rng(0)
SIZE = 300  # blocks of 512 updates
PRIOR = es.Dense(np.exp(-0.5 * np.subtract.outer(np.arange(SIZE), np.arange(SIZE)) ** 2 / 30**2), mean=0.3)
COUNTS = GENERATOR.poisson(2.0, SIZE)

LIKELIHOODS = {
    "traced": lambda f: -jnp.sum((f - 0.5) ** 2),
    "planes": es.likelihoods.Poisson(COUNTS),
    "carried": es.likelihoods.LinearPredictor(
        GENERATOR.standard_normal((5, SIZE)), es.likelihoods.Gaussian(np.ones(5), 0.5)
    ),
}


def after(made, columns):
    """Return the checkpoint after `made` updates."""
    state = State(columns["f"][made - 1].copy(), float(columns["total_log_likelihood"][made - 1]))
    return Checkpoint(made, state)


def begin(engine, name="traced", move=None):
    posterior = Posterior(PRIOR, LIKELIHOODS[name])
    runner = engine(posterior)
    start = posterior.points(np.random.default_rng(1), 1)[0]
    return runner, move or EllipticalSlice(), Checkpoint(0, State(start, runner.evaluate(start)))


@pytest.mark.long_cases("CompiledEngine-planes", "HostEngine-traced")
@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("engine", [CompiledEngine, HostEngine])
def test_a_run_begins_anywhere(engine, name):
    with jax_settings():
        runner, move, start = begin(engine, name)
        updates, spec = 600 if engine is CompiledEngine else 540, RunSpec(move, 7, (2, 3))
        whole = finish(runner.run(spec, [start, start], updates))
        both = columns(whole), columns(whole, 1)
        for made in [(1, 10), (511, 512), (530, 500)]:
            # Start one update earlier, as stores do, so that the scout has the same derivatives at the current state.
            again = finish(runner.run(spec, [after(n, own) for n, own in zip(made, both, strict=True)], updates))
            for chain, (expected, n) in enumerate(zip(both, made, strict=True)):
                got = columns(again, chain)
                assert next(rows.first for rows in again if rows.chains.start == chain) == n
                for name, wanted in expected.items():
                    np.testing.assert_array_equal(got[name][1:], wanted[n + 1 :])
                np.testing.assert_array_equal(got["f"][0], expected["f"][n])


@pytest.mark.long_cases("HostEngine-traced")
@pytest.mark.parametrize("name", ["traced", "planes"])
@pytest.mark.parametrize("engine", [CompiledEngine, HostEngine])
def test_a_run_goes_on(engine, name):
    with jax_settings():
        runner, move, start = begin(engine, name)
        spec, parts = RunSpec(move, 7, (2,)), []
        whole = finish(runner.run(spec, [start], 600))
        run = runner.run(spec, [start], 3)
        for updates in (3, 100, 512, 600):
            run.extend(updates)
            parts += finish(run)
        got = columns(parts)
        for name, wanted in columns(whole).items():
            np.testing.assert_array_equal(got[name], wanted)
        assert parts[-1].last[0].counts == whole[-1].last[0].counts


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
        start, spec = np.zeros(5), RunSpec(move, 1, (0,))
        expected = columns(finish(runner.run(spec, [Checkpoint(0, State(start, runner.evaluate(start)))], 40)))
        got = columns(finish(runner.run(spec, [after(17, expected)], 40)))
        for name, wanted in expected.items():
            np.testing.assert_array_equal(got[name], wanted[17:])


@pytest.mark.long
@pytest.mark.long_cases("True")
@pytest.mark.parametrize("double", [True, False])
def test_chains_together_go_on_from_the_start_of_a_block(double, monkeypatch):
    monkeypatch.setattr("ellipslice.engines.device.engine.block_length", lambda numbers: 16)
    posterior = Posterior(PRIOR, LIKELIHOODS["traced"])
    with jax_settings():
        engine = BatchedEngine(posterior, double=double)
        points = list(posterior.points(np.random.default_rng(1), 3))
        starts = [Checkpoint(0, State(f, engine.evaluate(f))) for f in points]
        spec = RunSpec(EllipticalSlice(), 7, (0, 1, 2), warmup=5, thin=2)
        whole = finish(engine.run(spec, starts, 60))
        again = finish(engine.run(spec, whole[2].resume, 60))
        assert_same_rows(again, whole[2:])
        run = engine.run(spec, starts, 41)
        longer = finish(run)
        run.extend(60)
        longer += finish(run)
    assert longer[2].resume[0].updates == longer[3].resume[0].updates == 32  # the block that was cut short is repeated
    assert_same_rows(longer[:2] + longer[3:], whole)


def assert_same_rows(got, expected):
    assert [rows.first for rows in got] == [rows.first for rows in expected]
    for one, two in zip(got, expected, strict=True):
        count = two.draws
        assert one.draws == count
        np.testing.assert_array_equal(one.f.buffer[:count], two.f.buffer[:count])
        for name, wanted in two.statistics.items():
            np.testing.assert_array_equal(one.statistics[name], wanted)
        assert one.last[0].counts == two.last[0].counts
        assert one.highest == two.highest

"""Many more chains than cores: memory and turns."""

from __future__ import annotations

import subprocess
import sys
import threading

import jax
import numpy as np
import pytest

import ellipslice as es
from ellipslice.engines.compiled import CompiledEngine, chain
from ellipslice.likelihoods import Gaussian
from ellipslice.moves import EllipticalSlice, State
from ellipslice.posterior import Posterior
from ellipslice.priors import Diagonal
from ellipslice.programs import traced
from ellipslice.undocumented import xla_loop
from engine_rows import begin, finish

MEMORY = """
import resource
import numpy as np
import ellipslice as es

def run(chains):
    prior, log_likelihood = es.Diagonal(np.ones(400)), es.likelihoods.Gaussian(np.zeros(400), 1.0)
    es.sample(log_likelihood, prior, draws=20, warmup=0, chains=chains, seed=1, keep=False, progress=False)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

print(run(4), run(300))
"""


@pytest.mark.long
def test_chains_that_wait_hold_a_state_and_no_noise():
    """A block of 512 updates has random numbers and a trace of 3 MB. For 300 chains these would be 900 MB."""
    said = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, timeout=120, check=True)
    few, many = (int(word) / 1024 for word in said.stdout.split())
    assert many - few < 200


def test_those_behind_go_first_and_the_others_wait(monkeypatch):
    monkeypatch.setattr(chain, "available_cores", lambda: 2)
    monkeypatch.setattr(traced, "available_cores", lambda: 2)
    monkeypatch.setattr(chain, "TURN_SECONDS", 0.0)
    chains = 2 * chain.MAX_TURNS_PER_CORE + 3
    engine = CompiledEngine(Posterior(Diagonal(np.ones(3)), Gaussian(np.zeros(3), 1.0)))
    start = State(np.zeros(3), engine.evaluate(np.zeros(3)))
    turns, advance = [], chain.CompiledChain.advance

    def noted(one, *given):
        turns.append(positions[id(one)])
        advance(one, *given)

    positions, single = {}, chain.CompiledChain.single

    def made(position, *given):
        one = single(position, *given)
        positions[id(one)] = position
        return one

    monkeypatch.setattr(chain.CompiledChain, "single", made)
    monkeypatch.setattr(chain.CompiledChain, "advance", noted)
    run = begin(engine, EllipticalSlice(), 1, range(chains), [start] * chains, 50)
    finish(run)
    run.close()
    at_once = 2 * chain.MAX_TURNS_PER_CORE
    assert set(turns[:at_once]) == set(range(at_once))
    assert set(range(at_once, chains)) <= set(turns[at_once : 2 * at_once])


@pytest.mark.long
def test_a_loop_that_xla_cannot_make_one_function_of_is_run_as_it_comes_by_every_chain(monkeypatch):
    """Two chains find out at the same time. The second must not take the result of the first for its own."""
    both = threading.Barrier(2)

    def too_much(*arguments):
        both.wait(timeout=60)
        raise jax.errors.JaxRuntimeError("UNIMPLEMENTED: as XLA says it")

    monkeypatch.setattr(chain, "available_cores", lambda: 2)
    monkeypatch.setattr(traced, "available_cores", lambda: 2)
    for way in (xla_loop.WIDE, xla_loop.MARKED):
        monkeypatch.setitem(xla_loop._COMPILED, way, too_much)
    tree = es.sample(Gaussian(np.zeros(9), 1.0), Diagonal(np.ones(9)), draws=5, warmup=5, chains=2, seed=1)
    monkeypatch.undo()
    again = es.sample(Gaussian(np.zeros(9), 1.0), Diagonal(np.ones(9)), draws=5, warmup=5, chains=2, seed=1)
    np.testing.assert_allclose(tree.posterior.f, again.posterior.f, rtol=1e-10)

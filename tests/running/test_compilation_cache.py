"""With JAX's persistent cache a second process does not compile again."""

from __future__ import annotations

import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from ellipslice.undocumented import xla_loop

SCRIPT = """
import sys
import jax, jax.monitoring, jax.numpy as jnp, numpy as np
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name) if name.endswith("cache_hits") else None)
import ellipslice as es
for engine in ("compiled", "batched"):
    es.sample(lambda f: -jnp.sum((f - 1.0) ** 2), es.Diagonal(np.ones(5)), draws=20, seed=1, engine=engine)
    print(len(hits))
    hits.clear()
"""


@pytest.mark.long
def test_the_second_process_compiles_nothing_that_takes_time(tmp_path):
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()[-2:]
        for _ in range(2)
    )
    for before, hits in zip(map(int, first), map(int, second), strict=True):  # for each engine
        assert hits > before
        assert hits >= 5


@pytest.mark.parametrize("move", [es.moves.EllipticalSlice(), es.moves.NealMetropolis(0.5)], ids=["search", "steps"])
def test_a_loop_is_compiled_once(move):
    """The arguments of a loop have the types of its results, so that it is compiled only once."""

    def compiled():
        return sum(way._cache_size() for way in xla_loop._COMPILED.values())

    before = compiled()
    es.sample(lambda f: -jnp.sum(f**4), es.Diagonal(np.ones(7)), move=move, draws=3000, chains=2, seed=1)
    assert compiled() == before + 1

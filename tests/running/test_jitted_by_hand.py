"""A user's jitted function of NumPy data that is called directly, in single precision, before and after a run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
import jax, jax.numpy as jnp, numpy as np
import ellipslice as es

y = np.linspace(0.1, 1.7, 8)  # in double precision: not a number of these is one in single precision
jitted = jax.jit(lambda f: -jnp.sum((f - y) ** 2))
functions = {"jitted": jitted, "calls a jitted one": lambda f: jitted(f)}
log_likelihood = functions[sys.argv[1]]
options = dict(draws=20, warmup=5, chains=1, seed=1, progress=False)


def sample():
    return es.sample(log_likelihood, es.Diagonal(np.ones(8)), **options)


expected = es.sample(lambda f: -jnp.sum((f - y.copy()) ** 2), es.Diagonal(np.ones(8)), **options)
log_likelihood(np.zeros(8))
first = sample()
assert first.attrs["engine"] == "compiled", first.attrs["engine_reason"]
np.testing.assert_allclose(first.posterior.f, expected.posterior.f, rtol=1e-12)
if sys.argv[1] == "jitted":  # a jitted function inside the user's own keeps its data in double precision
    assert np.isclose(log_likelihood(np.zeros(8)), -np.sum(y**2), rtol=1e-6)
    np.testing.assert_array_equal(sample().posterior.f, first.posterior.f)
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", ["jitted", "calls a jitted one"])
def test_it_is_sampled_in_double_precision(kind):
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    said = subprocess.run([sys.executable, "-c", SCRIPT, kind], env=environment, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr[-2000:]

"""Log-likelihoods with linear algebra. JAX hands several matrices at once to XLA's threads, and waits in one of these.

Chains that run beside each other, one for each core, once waited for ever. A process of its own can be given up.
"""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ellipslice.engines.tracing import compilable, many_matrices
from ellipslice.posterior import Posterior
from ellipslice.priors import Diagonal
from ellipslice.settings import jax_settings

RUN = """
import sys
import jax, jax.numpy as jnp, numpy as np
import ellipslice as es

BASE = np.eye(100) + 0.1

def spread(f):
    return BASE + jnp.arange(1.0, 5.0)[:, None, None] * jnp.diag(f**2)

def cholesky(f):
    return -jnp.log(jnp.diagonal(jnp.linalg.cholesky(spread(f)), axis1=1, axis2=2)).sum()

def two(f):
    return one_at_a_time(f) + one_at_a_time(jnp.sin(f))

def one_at_a_time(f):
    return -jnp.log(jnp.diagonal(jnp.linalg.cholesky(BASE + jnp.diag(f**2)))).sum()

def two_functions():
    import numpyro.distributions as dist
    from tinygp import kernels

    model = es.gp.LatentGP(
        {"one": lambda scale: kernels.Matern52(scale), "two": kernels.Matern32(1.0)},
        lambda y: lambda one, two: -0.5 * ((y - one - two) ** 2).sum(),
        parameters={"scale": dist.LogNormal(0.0, 1.0)},
    )
    x = np.linspace(0, 9, 100)
    return model.fit(x, np.sin(x), draws=20, warmup=5, ways="white", progress=False).tree

options = dict(chains=4, draws=20, warmup=5, progress=False, engine="compiled")
what = sys.argv[1]
if what == "two_functions":
    tree = two_functions()
else:
    if what == "one_at_a_time":
        options |= {"look_ahead": 4}
    if what == "two":
        options |= {"engine": "batched"}
    tree = es.sample(globals()[what], es.Diagonal(np.ones(100)), **options)
print(tree.posterior.sizes["draw"])
"""


@pytest.mark.parametrize("what", ["cholesky", "one_at_a_time", "two", "two_functions"])
def test_chains_beside_each_other_come_to_an_end(what):
    found = subprocess.run(
        [sys.executable, "-c", RUN, what], capture_output=True, text=True, timeout=240, env=os.environ, check=False
    )
    assert found.stdout.split() == ["20"], found.stderr


def test_how_many_matrices_is_known():
    def answer(function):
        with jax_settings():
            likelihood = compilable(Posterior(Diagonal(np.ones(3)), function).log_likelihood, 3)
            return many_matrices(likelihood), likelihood.program.one_by_one

    def roots(f):
        return jnp.linalg.cholesky(jnp.eye(3) + jnp.arange(2.0)[:, None, None] * jnp.diag(f**2)).sum()

    def root(f):
        return jnp.linalg.cholesky(jnp.eye(3) + jnp.diag(f**2)).sum()

    both = True, True
    assert answer(roots) == both
    assert answer(jax.jit(roots)) == both
    assert answer(lambda f: jax.vmap(lambda scale: root(scale * f))(jnp.arange(2.0)).sum()) == both
    assert answer(root) == (False, True)
    assert answer(lambda f: (f**2).sum()) == (False, False)

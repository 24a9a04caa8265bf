"""
Engines: one seed, compiled or in plain Python
==============================================

A log-likelihood in `jax.numpy` is compiled; any other Python function runs on the host. Both engines use the same
random numbers, so a seed gives the same chain, up to rounding error. The batched engine, for GPUs, generates its own
random numbers: it has the same posterior, but other draws. Compare the traces in the left panel.

::

    python examples/engines.py        # writes engines.png
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import ellipslice as es

# %%
# Simulated counts with a smooth log rate, and three versions of the log-likelihood.

x = np.linspace(0, 10, 100)
counts = np.random.default_rng(0).poisson(np.exp(np.sin(x)))
prior = es.Dense(np.exp(-0.5 * (x[:, None] - x) ** 2))


def compiled(f):
    """Return the log-likelihood in `jax.numpy`, which JAX can trace and compile."""
    return jnp.sum(counts * f - jnp.exp(f))


def plain(f):
    """Return the log-likelihood in NumPy, which JAX cannot trace. It could also be a simulator."""
    f = np.asarray(f)
    return float(counts @ f - np.exp(f).sum())


def batch(f):
    """Return the log-likelihoods of a batch of states, shape (batch, 100), as an array of shape (batch,)."""
    return f @ counts - np.exp(f).sum(axis=-1)


# %%
# `sample` chooses the engine, and `attrs["engine_reason"]` states the reason. The runs are short: enough to compare
# engines, but the convergence report requires about ten times as many updates for precise posterior means.

move = es.moves.EllipticalSlice()  # the same on all engines; the default depends on the engine
run = {"move": move, "draws": 2_000, "warmup": 500, "chains": 4, "seed": 1, "progress": False}
trees = {
    "compiled": es.sample(compiled, prior, **run),
    "host": es.sample(plain, prior, **run),
    "host, vectorized": es.sample(batch, prior, vectorized=True, **run),
    "batched": es.sample(compiled, prior, engine="batched", **run),
}
for name, tree in trees.items():
    seconds = tree.attrs["sampling_time"]
    print(f"{name:18}{tree.attrs['updates'] / seconds:10,.0f} updates per second, including compilation")
    print(f"{'':18}  {tree.attrs['engine_reason']}")
difference = np.abs(trees["compiled"].posterior.f - trees["host"].posterior.f).max().item()
print(es.diagnostics.check_convergence(trees["compiled"]))
print(f"largest difference between compiled and host: {difference:.1e}")

# %%
# The first three traces coincide. The last one is another chain, and its posterior mean agrees up to Monte Carlo error.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", width_ratios=[1.3, 1])
for (name, tree), style in zip(trees.items(), ("-", "--", ":", "-"), strict=True):
    left.plot(tree.posterior.f[0, :120, 50], style)
    right.plot(x, tree.posterior.f.mean(("chain", "draw")), style, label=name)
left.set(xlabel="draw", ylabel="f at x = 5", title="trace of one chain")
right.set(xlabel="x", ylabel="posterior mean of f", title="all chains")
right.plot(x, np.sin(x), color="black", linewidth=0.8, label="truth")
right.legend(frameon=False, fontsize="small", loc="lower left")
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
figure.savefig("engines.png", dpi=110)

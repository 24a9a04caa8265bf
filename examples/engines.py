"""
The same chain on another engine
================================

A log-likelihood in `jax.numpy` is compiled; any other Python runs on the host. Both consume the same noise, so a seed
gives the same chain, to rounding. On a device chains run together, from noise that is made there: the same posterior,
other draws.

::

    python examples/engines.py        # writes engines.png
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import ellipslice as es

# %%
# Counts with a smooth log-rate, and the log-likelihood twice: for the compiler, and for anybody.

x = np.linspace(0, 10, 100)
counts = np.random.default_rng(0).poisson(np.exp(np.sin(x)))
prior = es.Dense(np.exp(-0.5 * (x[:, None] - x) ** 2))


def compiled(f):
    """Traced by JAX."""
    return jnp.sum(counts * f - jnp.exp(f))


def plain(f):
    """NumPy, which JAX cannot trace: it might be a simulator."""
    f = np.asarray(f)
    return float(counts @ f - np.exp(f).sum())


def batch(f):
    """The same for a batch of points, (batch, 100) -> (batch,)."""
    return f @ counts - np.exp(f).sum(axis=-1)


# %%
# `engine=` is found by looking, and `attrs` says why.

run = {"draws": 2_000, "warmup": 500, "chains": 4, "seed": 1, "progress": False}
trees = {
    "compiled": es.sample(compiled, prior, **run),
    "host": es.sample(plain, prior, **run),
    "host, vectorized": es.sample(batch, prior, vectorized=True, **run),
    "batched": es.sample(compiled, prior, engine="batched", **run),
}
for name, tree in trees.items():
    seconds = tree.attrs["sampling_time"]
    print(f"{name:18}{tree.attrs['updates'] / seconds:10,.0f} updates a second, compiling included")
    print(f"{'':18}  {tree.attrs['engine_reason']}")
same = np.abs(trees["compiled"].posterior.f - trees["host"].posterior.f).max().item()
print(f"largest difference between compiled and host: {same:.1e}")

# %%
# The first three traces lie on top of each other. The last is another chain of the same posterior: the means agree.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", width_ratios=[1.3, 1])
for (name, tree), style in zip(trees.items(), ("-", "--", ":", "-"), strict=True):
    left.plot(tree.posterior.f[0, :120, 50], style)
    right.plot(x, tree.posterior.f.mean(("chain", "draw")), style, label=name)
left.set(xlabel="draw", ylabel="f in the middle", title="one chain")
right.set(xlabel="x", ylabel="posterior mean of f", title="all chains")
right.plot(x, np.sin(x), color="black", linewidth=0.8, label="truth")
right.legend(frameon=False, fontsize="small", loc="lower left")
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
figure.savefig("engines.png", dpi=110)

"""
Multi-class Gaussian process classification (softmax)
=====================================================

Classification with three classes. Each class has a latent function, and a softmax turns the three values into
probabilities. The right panel shows where the classification is certain: near the data, but not between the classes and
far away.

::

    python examples/classes.py        # writes classes.png
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from tinygp import kernels

import ellipslice as es

# %%
# Simulated data: three arms of a spiral, which no straight line separates.

rng = np.random.default_rng(4)
label = np.repeat([0, 1, 2], 35)
turn = rng.uniform(0.3, 3.0, len(label))
along = np.column_stack([np.cos(turn + 2.1 * label), np.sin(turn + 2.1 * label)])
points = turn[:, None] * along + 0.15 * rng.standard_normal((len(label), 2))

# %%
# The likelihood is user-defined. It takes the three latent functions by name.

classes = ("red", "green", "blue")


def softmax(y):
    """Return the sum of the log-probabilities of the observed classes, as a function of the latent functions."""
    return lambda red, green, blue: jnp.sum(
        jax.nn.log_softmax(jnp.stack([red, green, blue], axis=-1))[jnp.arange(len(y)), y]
    )


kernel = 9.0 * kernels.ExpSquared(1.0)
model = es.gp.LatentGP(dict.fromkeys(classes, kernel), softmax)
fit = model.fit(points, label, seed=1)
print(fit.tree.attrs["move_reason"])
print(es.diagnostics.check_convergence(fit.tree))

# %%
# Probabilities on a grid are averages over the draws. So far from the data they return to 1/3 each.

side = np.linspace(-3.6, 3.6, 60)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
latents = fit.predict(grid, draws=400, joint=False)
values = np.stack([latents[name].values for name in classes], axis=-1)
probability = np.asarray(jax.nn.softmax(values, axis=-1)).mean(axis=(0, 1)).reshape(60, 60, 3)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
extent = (side[0], side[-1], side[0], side[-1])
left.imshow(0.25 + 0.75 * probability, origin="lower", extent=extent)
left.scatter(*points.T, c=np.array(["#a00000", "#006000", "#0000a0"])[label], s=16, edgecolor="white", linewidth=0.5)
left.set(title="probabilities as a mixture of colours")
mapped = right.imshow(probability.max(axis=-1), origin="lower", extent=extent, vmin=1 / 3, vmax=1)
right.scatter(*points.T, color="white", s=4)
right.set(title="largest probability")
figure.colorbar(mapped, ax=right, shrink=0.85)
figure.savefig("classes.png", dpi=110)

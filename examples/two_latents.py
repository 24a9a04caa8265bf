"""
Noise that changes
==================

Two latent functions behind one set of data: where the curve is, and how noisy it is there. Any number of latent
functions go into a `LatentGP` by name, and reach the likelihood by name.

::

    python examples/two_latents.py        # writes two_latents.png
"""

import jax.numpy as jnp
import jax.scipy.stats
import matplotlib.pyplot as plt
import numpy as np
from tinygp import kernels

import ellipslice as es

# %%
# An impact: quiet, then violent, then quiet again.

rng = np.random.default_rng(7)
x = np.sort(rng.uniform(0, 10, 140))
deviation = 0.1 + 0.9 * np.exp(-((x - 5) ** 2) / 3)
y = 2 * np.exp(-((x - 4) ** 2)) - 2 * np.exp(-((x - 6) ** 2)) + deviation * rng.standard_normal(len(x))

# %%
# The likelihood is a function of y that gives a function of the latents. It is compiled, because it is written with
# `jax.numpy`. With a name for each kernel the prior is two independent processes.


def changing_noise(y):
    """Gaussian, with a mean and a logarithm of the deviation for each observation."""
    return lambda mean, log_noise: jnp.sum(jax.scipy.stats.norm.logpdf(y, mean, jnp.exp(log_noise)))


model = es.gp.LatentGP(
    {"mean": 4.0 * kernels.Matern52(1.5), "log_noise": kernels.ExpSquared(2.0)},
    changing_noise,
    mean={"mean": 0.0, "log_noise": -1.0},
)
fit = model.fit(x, y, draws=500, warmup=2_000, thin=50, seed=1)
print(es.diagnostics.check_convergence(fit.tree))

# %%
# Both functions at new points. For a likelihood of your own `predict` gives the latents; what is observed is then
# one line.

new = np.linspace(0, 10, 200)
predicted = fit.predict(new)
mean, noise = predicted["mean"].values, np.exp(predicted["log_noise"].values)
observed = mean + noise * rng.standard_normal(mean.shape)

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
over = (0, 1)
left.fill_between(
    new, *np.quantile(observed, [0.05, 0.95], over), color="#56B4E9", alpha=0.25, label="90 % of the data"
)
left.fill_between(new, *np.quantile(mean, [0.05, 0.95], over), color="#0072B2", alpha=0.45, label="90 % for the curve")
left.plot(x, y, ".", color="black", markersize=4)
left.set(xlabel="x", ylabel="y", title="the curve")
left.legend(frameon=False)
right.fill_between(new, *np.quantile(noise, [0.05, 0.95], over), color="#D55E00", alpha=0.35, label="90 % of the draws")
right.plot(x, deviation, "--", color="black", label="truth")
right.set(xlabel="x", ylabel="deviation of the noise", ylim=(0, None), title="how noisy it is")
right.legend(frameon=False)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
figure.savefig("two_latents.png", dpi=110)

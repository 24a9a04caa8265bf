"""
Heteroscedastic regression: two latent functions
================================================

Regression with noise that changes: one latent function is the mean of the data, another one the logarithm of the
standard noise_scale of the noise. `LatentGP` takes any number of latent functions by name and passes them to the
likelihood by name. The right panel shows that the fit recovers the noise.

::

    python examples/two_latents.py        # writes two_latents.png
"""

import jax.numpy as jnp
import jax.scipy.stats
import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist
from tinygp import kernels

import ellipslice as es

# %%
# Simulated measurements of an impact: the noise is small at first, large in the middle, and small again.

rng = np.random.default_rng(7)
x = np.sort(rng.uniform(0, 10, 80))
noise_scale = 0.1 + 0.9 * np.exp(-((x - 5) ** 2) / 3)
y = 2 * np.exp(-((x - 4) ** 2)) - 2 * np.exp(-((x - 6) ** 2)) + noise_scale * rng.standard_normal(len(x))

# %%
# The likelihood is a function of y that returns a function of the latent functions. It is written with `jax.numpy`, so
# that it can be compiled. A dictionary of kernels makes the latent functions independent under the prior. The amplitude
# of the mean is unknown. With unknown hyperparameters `LatentGP` uses site approximations of the likelihood, and the
# chains mix well; with a fixed amplitude this posterior would need far more updates.


def changing_noise(y):
    """Return the Gaussian log-likelihood as a function of the mean and of the log noise scale of each observation."""
    return lambda mean, log_noise: jnp.sum(jax.scipy.stats.norm.logpdf(y, mean, jnp.exp(log_noise)))


model = es.gp.LatentGP(
    {"mean": lambda amplitude: amplitude**2 * kernels.Matern52(1.5), "log_noise": kernels.ExpSquared(2.0)},
    changing_noise,
    mean={"mean": 0.0, "log_noise": -1.0},
    parameters={"amplitude": dist.LogNormal(0.7, 0.5)},
)
fit = model.fit(x, y, seed=1)
print(es.diagnostics.check_convergence(fit.tree))

# %%
# Predict both functions at new points. For a user-defined likelihood `predict` returns only the latent functions.
# Posterior predictive draws of observations then take one line.

new = np.linspace(0, 10, 200)
predicted = fit.predict(new)
mean, noise = predicted["mean"].values, np.exp(predicted["log_noise"].values)
predictive = mean + noise * rng.standard_normal(mean.shape)

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
over = (0, 1)
left.fill_between(
    new, *np.quantile(predictive, [0.05, 0.95], over), color="#56B4E9", alpha=0.25, label="90 % predictive band"
)
left.fill_between(
    new, *np.quantile(mean, [0.05, 0.95], over), color="#0072B2", alpha=0.45, label="90 % band of the mean"
)
left.plot(x, y, ".", color="black", markersize=4)
left.set(xlabel="x", ylabel="y", title="mean")
left.legend(frameon=False)
right.fill_between(new, *np.quantile(noise, [0.05, 0.95], over), color="#D55E00", alpha=0.35, label="90 % band")
right.plot(x, noise_scale, "--", color="black", label="truth")
right.set(xlabel="x", ylabel="standard deviation of the noise", ylim=(0, None), title="noise")
right.legend(frameon=False)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
figure.savefig("two_latents.png", dpi=110)

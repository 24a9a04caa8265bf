"""
A hundred thousand times
========================

A rate that changes over ten weeks, seen minute by minute. `Markov` draws a Matérn process at a hundred thousand times
in linear time, where a dense covariance would have ten thousand million entries.

::

    python examples/time_series.py        # writes time_series.png
"""

import matplotlib.pyplot as plt
import numpy as np
from tinygp.kernels import quasisep

import ellipslice as es

# %%
# Calls at a help desk: few in a minute, and the days are not alike. The times need not be regular; some minutes are
# missing.

rng = np.random.default_rng(3)
minutes = np.sort(rng.choice(101_000, 100_000, replace=False)).astype(float)
rate = 0.01 * np.exp(np.sin(2 * np.pi * minutes / 30_000) + 0.5 * np.sin(2 * np.pi * minutes / 7_000))
calls = rng.poisson(rate)
print(f"{calls.sum()} calls in {len(minutes):,} minutes")

# %%
# The prior is a process in continuous time: its logarithm varies by a factor of e or so, and forgets itself in about a
# day and a half. Of each draw only every 250th value is kept, which is plenty for a picture.

prior = es.Markov(quasisep.Matern32(scale=2_000.0), minutes, mean=np.log(0.01))
shown = slice(None, None, 250)
tree = es.sample(
    es.likelihoods.Poisson(calls),
    prior,
    draws=100,
    warmup=300,
    thin=10,
    chains=2,
    seed=1,
    keep=lambda f: {"log_rate": f[shown]},
)
print(f"{tree.attrs['updates']:,} updates in {tree.attrs['sampling_time']:.0f} s")
print(es.diagnostics.verdict(tree))

# %%
# The band is where the rate is with 90 %. (If the verdict asks for more draws, more of them make it smoother.)

draws = np.exp(tree.posterior.log_rate.values.reshape(-1, len(minutes[shown])))
days = minutes[shown] / 1440

figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
axes.fill_between(
    days, *np.quantile(draws, [0.05, 0.95], axis=0), color="#56B4E9", alpha=0.5, label="90 % of the draws"
)
axes.plot(days, draws.mean(axis=0), color="#0072B2", label="posterior mean")
axes.plot(days, rate[shown], "--", color="black", linewidth=1, label="truth")
axes.plot(minutes[calls > 0] / 1440, np.zeros((calls > 0).sum()), "|", color="#5f6670", alpha=0.4)
axes.set(xlabel="day", ylabel="calls a minute", ylim=(-0.001, None))
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
figure.savefig("time_series.png", dpi=110)

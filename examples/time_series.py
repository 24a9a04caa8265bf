"""
Long time series in linear time: a Markov prior
===============================================

A rate that changes over six thousand days, at irregular times. `Markov` draws a Matérn process at a cost that is linear
in the number of times. With a dense covariance a draw costs O(n²) and the factorisation O(n³). The left panel shows the
estimated rate, the right one the time of a draw for up to a million times.

::

    python examples/time_series.py        # writes time_series.png
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from tinygp.kernels import quasisep

import ellipslice as es

# %%
# Simulated alarms in a plant over twenty years, per day. Some days are missing.

rng = np.random.default_rng(3)
days = np.sort(rng.choice(7_300, 6_000, replace=False)).astype(float)
rate = 0.015 * np.exp(np.sin(2 * np.pi * days / 4_000))
alarms = rng.poisson(rate)
print(f"{alarms.sum()} alarms in {len(days):,} days")

# %%
# The prior is a process in continuous time. The log rate has a standard deviation of 1 and a length scale of about
# seven years. Only every 20th element of each draw is kept, which is enough for the plot and saves memory. No Gaussian
# approximation is fitted above 5,000 elements; `sample` chooses rotations with kicks by the gradient around the prior.

prior = es.Markov(quasisep.Matern52(scale=2_500.0), days, mean=np.log(0.015))
kept = slice(None, None, 20)
tree = es.sample(
    es.likelihoods.Poisson(alarms),
    prior,
    seed=1,
    keep=lambda f: {"log_rate": f[kept]},
)
print(tree.attrs["move_reason"])
print(f"{tree.attrs['updates']:,} updates in {tree.attrs['sampling_time']:.0f} s")
print(es.diagnostics.check_convergence(tree))

# %%
# The time of a draw, from a thousand times to a million. (Processor time, the best of three draws, without the
# construction of the prior.)

sizes = (1_000, 10_000, 100_000, 1_000_000)
seconds = []
for size in sizes:
    larger = es.Markov(quasisep.Matern52(scale=2_500.0), np.arange(float(size)))
    best = np.inf
    for _ in range(3):
        began = time.process_time()
        larger.simulate(rng)
        best = min(best, time.process_time() - began)
    seconds.append(best)
    print(f"{size:>9,} times: {1000 * best:8.1f} ms per draw")

# %%
# The band contains the rate with 90 % posterior probability.

draws = np.exp(tree.posterior.log_rate.values.reshape(-1, len(days[kept])))
years = days[kept] / 365.25

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", width_ratios=[2, 1])
left.fill_between(
    years, *np.quantile(draws, [0.05, 0.95], axis=0), color="#56B4E9", alpha=0.5, label="90 % credible band"
)
left.plot(years, draws.mean(axis=0), color="#0072B2", label="posterior mean")
left.plot(years, rate[kept], "--", color="black", linewidth=1, label="truth")
left.plot(days[alarms > 0] / 365.25, np.zeros((alarms > 0).sum()), "|", color="#5f6670", alpha=0.6)
left.set(xlabel="year", ylabel="alarms per day", ylim=(-0.001, None))
left.legend(frameon=False)
right.loglog(sizes, seconds, "o-")
right.loglog(sizes, [seconds[-1] * size / sizes[-1] for size in sizes], "--", color="#5f6670", label="linear")
right.set(xlabel="number of times", ylabel="processor time per draw, seconds")
right.legend(frameon=False)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
figure.savefig("time_series.png", dpi=110)

"""
Counts on a map
===============

Cases in the regions of a map, of which neighbours are alike: a conditional autoregression, which `SparsePrecision`
draws by a sparse factor.

::

    python examples/regions.py        # writes regions.png
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse

import ellipslice as es

# %%
# A made-up island of regions, cells of a lattice here; any graph of neighbours will do. People live near the coast, so
# counts inland are small and say little by themselves.

rng = np.random.default_rng(2)
rows, columns = np.mgrid[:24, :32]
angle = np.arctan2(rows - 12, (columns - 16) * 0.75)
radius = np.hypot(rows - 12, (columns - 16) * 0.75)
island = radius < 9.5 + 1.5 * np.sin(3 * angle) + 0.8 * np.cos(5 * angle)
number = np.full(island.shape, -1)
number[island] = np.arange(island.sum())

pairs = []
for here, there in ((number[:, :-1], number[:, 1:]), (number[:-1], number[1:])):
    both = (here >= 0) & (there >= 0)
    pairs.append(np.column_stack([here[both], there[both]]))
first, second = np.concatenate(pairs).T
regions = island.sum()
graph = scipy.sparse.coo_array((np.ones(len(first)), (first, second)), shape=(regions, regions))
graph = (graph + graph.T).tocsr()

risk = np.exp(0.7 * np.sin(columns / 5) * np.cos(rows / 4))[island]
expected = np.exp(rng.normal(0.3, 0.6, regions) + 0.15 * radius[island] - 0.6)
cases = rng.poisson(expected * risk)
print(f"{regions} regions, {cases.sum()} cases, {np.mean(cases == 0):.0%} of the regions have none")

# %%
# A region is its neighbours' mean plus noise. Expected counts are standardised, so that the log-risk is about zero on
# average. The counts are strong beside such a prior, and plain ellipses would move little: `reference="auto"` moves
# around a Gaussian that is fitted to the posterior first. The draws are from the same posterior.

prior = es.SparsePrecision.car(graph, 0.98, precision=4.0)
likelihood = es.likelihoods.Poisson(cases, offset=np.log(expected))
tree = es.sample(likelihood, prior, reference="auto", draws=1_000, seed=1)
print(es.diagnostics.check_convergence(tree))

# %%
# The map of what was counted is mostly noise. In the last one the data have decided where the colour is strong, and not
# where it is pale.

log_risk = tree.posterior.f.values.reshape(-1, regions)
panels = {
    "cases over expected": cases / expected,
    "risk: posterior mean": np.exp(log_risk).mean(axis=0),
    "risk: the truth": risk,
    "probability that it is above 1": (log_risk > 0).mean(axis=0),
}
figure, axes = plt.subplots(1, 4, figsize=(14, 3.4), layout="constrained")
for axis, (name, values) in zip(axes, panels.items(), strict=True):
    picture = np.full(island.shape, np.nan)
    picture[island] = values
    top = 1 if "probability" in name else 2.5
    shown = axis.imshow(picture, vmin=0, vmax=top, cmap="RdBu_r" if top == 1 else "viridis")
    figure.colorbar(shown, ax=axis, shrink=0.7)
    axis.set_title(name, fontsize="medium")
    axis.set_axis_off()
figure.savefig("regions.png", dpi=110)

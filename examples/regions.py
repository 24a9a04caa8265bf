"""
Disease mapping: a conditional autoregression (CAR) of counts in regions
========================================================================

Counts of cases in the regions of a map, with a prior under which neighbouring regions have similar risks: a conditional
autoregression. `SparsePrecision` draws from it with a sparse Cholesky factor. The maps compare the raw ratios, which
are mostly noise, with the posterior mean and the truth.

::

    python examples/regions.py        # writes regions.png
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse

import ellipslice as es

# %%
# A simulated island whose regions are cells of a lattice. Any graph of neighbours works. Most people live near the
# coast, so the counts inland are small and contain little information by themselves.

rng = np.random.default_rng(2)
rows, columns = np.mgrid[:24, :32]
angle = np.arctan2(rows - 12, (columns - 16) * 0.75)
radius = np.hypot(rows - 12, (columns - 16) * 0.75)
island = radius < 9.5 + 1.5 * np.sin(3 * angle) + 0.8 * np.cos(5 * angle)
number = np.full(island.shape, -1)
number[island] = np.arange(island.sum())

pairs = []
for one, other in ((number[:, :-1], number[:, 1:]), (number[:-1], number[1:])):
    both = (one >= 0) & (other >= 0)
    pairs.append(np.column_stack([one[both], other[both]]))
first, second = np.concatenate(pairs).T
regions = island.sum()
graph = scipy.sparse.coo_array((np.ones(len(first)), (first, second)), shape=(regions, regions))
graph = (graph + graph.T).tocsr()

risk = np.exp(0.7 * np.sin(columns / 5) * np.cos(rows / 4))[island]
expected = np.exp(rng.normal(0.3, 0.6, regions) + 0.15 * radius[island] - 0.6)
cases = rng.poisson(expected * risk)
print(f"{regions} regions, {cases.sum()} cases, {np.mean(cases == 0):.0%} of the regions have no case")

# %%
# Under the prior, the log risk of a region is 0.98 times the mean of its neighbours plus noise. The expected counts are
# standardised, so that the log risk is about zero on average. The data are much more informative than this prior, and
# plain elliptical slice sampling would mix slowly. `sample` therefore chooses to sample around a Gaussian approximation
# of the posterior, which targets the same posterior.

prior = es.SparsePrecision.car(graph, 0.98, precision=4.0)
likelihood = es.likelihoods.Poisson(cases, offset=np.log(expected))
tree = es.sample(likelihood, prior, seed=1)
print(tree.attrs["move_reason"])
print(es.diagnostics.check_convergence(tree))

# %%
# The last map shows where the risk is clearly above 1 (dark red) or below 1 (dark blue). Where it is pale, the data do
# not decide.

log_risk = tree.posterior.f.values.reshape(-1, regions)
panels = {
    "cases / expected": cases / expected,
    "risk: posterior mean": np.exp(log_risk).mean(axis=0),
    "risk: truth": risk,
    "probability of a risk above 1": (log_risk > 0).mean(axis=0),
}
figure, axes = plt.subplots(1, 4, figsize=(14, 3.4), layout="constrained")
for axis, (name, values) in zip(axes, panels.items(), strict=True):
    image = np.full(island.shape, np.nan)
    image[island] = values
    top = 1 if "probability" in name else 2.5
    mapped = axis.imshow(image, vmin=0, vmax=top, cmap="RdBu_r" if top == 1 else "viridis")
    figure.colorbar(mapped, ax=axis, shrink=0.7)
    axis.set_title(name, fontsize="medium")
    axis.set_axis_off()
figure.savefig("regions.png", dpi=110)

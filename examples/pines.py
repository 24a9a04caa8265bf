"""
Map of a spatial point pattern: the Finnish pines
=================================================

126 pine saplings in a forest, counted on a grid of 30 x 30 cells. The model is a log-Gaussian Cox process. The panels
show the data, the posterior mean of the intensity and its relative standard deviation.

::

    python examples/pines.py        # writes pines.png
"""

import matplotlib.pyplot as plt
import numpy as np

import ellipslice as es

counts = es.data.finnish_pines()
rows, columns = np.indices(counts.shape)

# %%
# The log intensity f has a Matérn 3/2 covariance with a length scale of five cells. The offset contains its mean and
# the size of a cell. (With a length scale of 30/33, a variance of 1.91 and an exponential covariance this is a standard
# benchmark of samplers, after Møller, Syversveen & Waagepetersen 1998.)

variance, length_scale = 1.0, 5.0
places = np.stack([rows.ravel(), columns.ravel()], axis=-1)
distance = np.sqrt(((places[:, None] - places) ** 2).sum(-1))
scaled = np.sqrt(3) * distance / length_scale
prior = es.Dense(variance * (1 + scaled) * np.exp(-scaled))
offset = np.log(counts.sum() / counts.size) - variance / 2
likelihood = es.likelihoods.Poisson(counts.ravel(), offset=offset)

# %%
# `sample` chooses to sample around a Gaussian approximation of the posterior, which mixes faster here than plain
# elliptical slice sampling. The run ends when it has converged.

tree = es.sample(likelihood, prior, seed=1)
print(tree.attrs["move_reason"])
print(es.diagnostics.check_convergence(tree))

# %%
# The intensity is known best where there are many saplings. Its relative standard deviation is largest in the empty
# parts and along the edges.

intensity = np.exp(tree.posterior.f.values.reshape(-1, *counts.shape) + offset)
mean, relative = intensity.mean(0), intensity.std(0) / intensity.mean(0)

figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
inside = counts > 0
panels = {
    "126 saplings (larger dots: several in a cell)": None,
    "posterior mean, saplings per cell": mean,
    "relative standard deviation": relative,
}
for panel, (title, values) in zip(axes, panels.items(), strict=True):
    if values is None:
        panel.scatter(columns[inside], rows[inside], s=18 * counts[inside], color="#0072B2")
    else:
        image = panel.imshow(values, origin="lower", cmap="viridis")
        figure.colorbar(image, ax=panel, shrink=0.85)
    panel.set_title(title, fontsize="medium")
    panel.set(xlabel="column of cells", ylabel="row of cells", aspect="equal", xlim=(-0.5, 29.5), ylim=(-0.5, 29.5))
figure.savefig("pines.png", dpi=150)

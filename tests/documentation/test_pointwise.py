"""`loo` of ArviZ requires the pointwise log-likelihood and must not use the total."""

from __future__ import annotations

import re
from pathlib import Path

import arviz_stats
import numpy as np
import pytest
import xarray

import ellipslice as es

FAQ = Path(__file__).parents[2] / "docs" / "reference" / "faq.md"
Y = np.array([0, 1, 2, 0, 3, 1])
PRIOR = es.Diagonal(np.full(6, 0.5))
OPTIONS = {"draws": 50, "warmup": 20, "chains": 2, "seed": 1, "progress": False}


@pytest.mark.filterwarnings("ignore:Estimated shape parameter")
def test_loo_takes_pointwise_values_and_never_the_total():
    likelihood = es.likelihoods.Poisson(Y)
    tree = es.sample(likelihood, PRIOR, **OPTIONS)
    with pytest.raises(TypeError, match="log likelihood not found"):
        arviz_stats.loo(tree)
    (recipe,) = re.findall(r'`(tree\["log_likelihood"\] = .*)`', FAQ.read_text(encoding="utf8"))
    exec(recipe, {"tree": tree, "xarray": xarray, "likelihood": likelihood})
    found = arviz_stats.loo(tree)
    assert found.n_data_points == len(Y)
    np.testing.assert_allclose(
        tree["log_likelihood"]["y"].sum("f_dim_0"), tree.sample_stats.total_log_likelihood, rtol=1e-12
    )

"""Options of `CoxProcess` in pairs: each runs and is correct, or is rejected with the message listed here."""

import numpy as np
import pytest
from tinygp import kernels

from combinations.pairs import Refusal, all_pairs, name, refusals_of, refused_rows
from ellipslice.gp import CoxProcess

EVENTS = {"some": [0.2, 0.3, 1.9], "one": [1.0], "none": [], "edges": [0.0, 2.0], "outside": [0.5, 3.0]}
OPTIONS = {
    "events": list(EVENTS),
    "axes": [1, 2],
    "mean": ["number", "data", "function"],
    "reference": [None, "ep"],
    "thin": [1, 2],
    "store": [False, True],
}
REFUSALS = [
    Refusal(r"events\[1\] = .* is outside the window", lambda events: events == "outside"),
    Refusal("there are no events, and mean was not given", lambda events, mean: events == "none" and mean == "data"),
]
MEANS = {"number": {"mean": 0.5}, "data": {}, "function": {"mean": lambda X: 0.1 * X.reshape(len(X), -1)[:, 0]}}


def fitted(row, path=None):
    events = np.array(EVENTS[row["events"]])
    if row["axes"] == 2 and len(events):
        events = np.stack([events, events / 2], 1)
    window = (0.0, 2.0) if row["axes"] == 1 else [(0.0, 2.0), (0.0, 2.0)]
    process = CoxProcess(kernels.ExpSquared(1.0), window, 3, **MEANS[row["mean"]])
    return process.fit(
        events,
        draws=4,
        warmup=2,
        chains=2,
        seed=1,
        progress=False,
        reference=row["reference"],
        thin=row["thin"],
        store=path,
    )


@pytest.mark.parametrize("row", refused_rows(OPTIONS, REFUSALS), ids=lambda row: name(row, OPTIONS))
def test_refused(row, tmp_path):
    messages = "|".join(one.message for one in refusals_of(row, REFUSALS))
    with pytest.raises(ValueError, match=messages):
        fitted(row, tmp_path / "run.zarr")
    assert not (tmp_path / "run.zarr").exists()


@pytest.mark.long
@pytest.mark.parametrize("row", all_pairs(OPTIONS, REFUSALS), ids=lambda row: name(row, OPTIONS))
def test_runs(row, tmp_path):
    fit = fitted(row, tmp_path / "run.zarr" if row["store"] else None)
    f = fit.tree.posterior.f
    assert f.shape == (2, 4, 3 ** row["axes"])
    assert f.dtype == np.float64
    assert np.isfinite(f).all()
    np.testing.assert_array_equal(f, fitted(row).tree.posterior.f)
    assert fit.shown.sum() == pytest.approx(len(EVENTS[row["events"]]) / fit._volume)

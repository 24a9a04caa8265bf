"""The data sets that ship with the package are those of the paper."""

import dataclasses
from importlib import resources

import numpy as np
import pytest

from ellipslice.data import CoalMining, coal_mining, finnish_pines, usps_3v5


@pytest.fixture(scope="module")
def coal() -> CoalMining:
    return coal_mining()


def test_191_events_over_40549_days(coal):
    assert coal.days.size == 191
    assert np.diff(coal.days).sum() == 40549
    assert coal.days[0] == 0
    assert (np.diff(coal.days) >= 0).all()


def test_dates_agree_with_the_days(coal):
    assert str(coal.dates[0]) == "1851-03-15"
    assert str(coal.dates[-1]) == "1962-03-22"
    np.testing.assert_array_equal((coal.dates - coal.dates[0]).astype(int), coal.days)


def test_decimal_years_agree_with_the_dates(coal):
    np.testing.assert_array_equal(np.floor(coal.years), coal.dates.astype("datetime64[Y]").astype(int) + 1970)


def test_811_bins_hold_the_papers_counts(coal):
    assert coal.counts.size == coal.centres.size == coal.bin_years.size == 811
    np.testing.assert_array_equal(np.bincount(coal.counts), [657, 124, 24, 5, 1])
    assert coal.counts.sum() == 191


def test_bin_centres(coal):
    np.testing.assert_array_equal(coal.centres, 25.5 + 50 * np.arange(811))
    assert 1851.2 < coal.bin_years[0] < coal.bin_years[-1] < coal.years[-1]
    np.testing.assert_allclose(np.diff(coal.bin_years), 50 / 365.25, rtol=1e-9)


def test_every_event_lies_in_its_bin(coal):
    """Days are numbered from 1, so an event is at most 24.5 days from the centre of its bin."""
    nearest = coal.centres[coal.days // 50]
    assert np.abs(coal.days + 1 - nearest).max() <= 24.5


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(CoalMining)])
def test_arrays_are_read_only(coal, name):
    with pytest.raises(ValueError, match="read-only"):
        getattr(coal, name)[0] = getattr(coal, name)[1]


def test_provenance_lies_beside_the_data():
    text = (resources.files("ellipslice.data") / "coal" / "README.md").read_text(encoding="utf-8")
    assert "Jarrett (1979)" in text


def test_usps_digits_are_those_of_kuss_and_rasmussen():
    usps = usps_3v5()
    assert (usps.x_train.shape, usps.x_test.shape) == ((767, 256), (773, 256))
    assert ((usps.y_train == 1).sum(), (usps.y_train == -1).sum()) == (406, 361)
    assert ((usps.y_test == 1).sum(), (usps.y_test == -1).sum()) == (418, 355)
    assert 0.999 < np.abs(usps.x_train).max() <= 1
    assert 0.999 < np.abs(usps.x_test).max() <= 1
    assert (np.diff(usps.y_train) <= 0).all()  # threes first
    assert len(np.unique(usps.x_train, axis=0)) == 767
    with pytest.raises(ValueError, match="read-only"):
        usps.x_train[0, 0] = 0.0


def test_pines_have_126_saplings_in_900_cells():
    counts = finnish_pines()
    assert counts.shape == (30, 30)
    assert counts.sum() == 126
    assert counts[0, 1] == counts[0, 2] == 1
    assert not counts.flags.writeable

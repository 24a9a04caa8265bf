"""Tables for latent Gaussian models: sizes, totals and neighbours."""

import numpy as np
import pytest
import scipy.sparse

from ellipslice import data
from ellipslice.latent.terms import ICAR


def test_plates_of_seeds():
    table = data.seeds()
    assert [len(column) for column in table.values()] == [21] * 5
    assert (table["r"].sum(), table["n"].sum()) == (424, 831)
    assert (table["r"] <= table["n"]).all()
    np.testing.assert_array_equal(table["plate"], np.arange(1, 22))


def test_seizures_of_59_patients_at_four_visits():
    table = data.epil()
    np.testing.assert_array_equal(np.bincount(table["Ind"])[1:], [4] * 59)
    np.testing.assert_array_equal(table["rand"], np.arange(1, 237))
    assert table["y"].sum() == 1950
    treated = np.array([table["Trt"][table["Ind"] == patient] for patient in range(1, 60)])
    assert (treated == treated[:, :1]).all()
    assert treated[:, 0].sum() == 31
    assert table["V4"].sum() == 59


def test_days_of_tokyo():
    table = data.tokyo()
    np.testing.assert_array_equal(table["time"], np.arange(1, 367))
    np.testing.assert_array_equal(table["time"][table["n"] == 1], [60])  # 29 February
    assert table["y"].sum() == 192
    assert (table["y"] <= table["n"]).all()


@pytest.mark.parametrize(("load", "column", "edges"), [(data.scotland, "Region", 132), (data.germany, "region", 1416)])
def test_graphs_are_connected_and_have_each_edge_once(load, column, edges):
    table = load()
    regions = table.columns[column]
    size = len(regions)
    np.testing.assert_array_equal(regions, np.arange(1, size + 1))
    pairs = np.sort(table.edges, axis=1)
    assert table.edges.shape == np.unique(pairs, axis=0).shape == (edges, 2)
    assert (pairs[:, 0] < pairs[:, 1]).all()
    matrix = scipy.sparse.coo_array((np.ones(edges), pairs.T - 1), shape=(size, size))
    assert scipy.sparse.csgraph.connected_components(matrix, directed=False)[0] == 1
    term = ICAR(column, graph=table.edges).bind(table.columns)
    assert term.coords[f"{column}_level"].tolist() == regions.tolist()


def test_expected_numbers_are_about_the_observed():
    germany, scotland = data.germany().columns, data.scotland().columns
    assert germany["Y"].sum() == 7283
    assert germany["E"].sum() == pytest.approx(7283, abs=1e-6)
    assert (scotland["Counts"].sum(), scotland["E"].sum()) == (536, pytest.approx(536.2))
    assert (germany["x"].min(), germany["x"].max()) == (3, 97)


def test_columns_are_read_only():
    table = data.germany()
    for column in (*table.columns.values(), table.edges, *data.seeds().values()):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0

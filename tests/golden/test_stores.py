"""Stores that an earlier version left unfinished are read, and resumed to the result of an uninterrupted run."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import xarray

from golden.check import close, is_comparable, made_here, record
from golden.runs import arrays
from golden.unfinished import RUNS, resume

pytest.importorskip("zarr")
pytestmark = [
    pytest.mark.filterwarnings("ignore:the store was created with"),  # other versions, which is the point
    pytest.mark.filterwarnings("ignore:.*that of the store up to rounding error"),
]

STORES = Path(__file__).parent / "stores"


@pytest.fixture
def unpack(tmp_path):
    def unpacked(name):
        with zipfile.ZipFile(STORES / f"{name}.zip") as archive:
            archive.extractall(tmp_path / "run.zarr")
        return tmp_path / "run.zarr"

    return unpacked


def check(name, found, draws, *, exact):
    expected = record("stores.json")["runs"][name]
    assert set(found) == set(expected)
    for key, values in expected.items():
        values = np.array(values)[:, :draws]
        assert found[key].shape == values.shape, key
        if exact:
            np.testing.assert_array_equal(found[key], values, err_msg=f"{name}: {key}")
        else:
            close(found[key], values, f"{name}: {key}")


@pytest.mark.parametrize("name", RUNS)
def test_it_is_read(name, unpack):
    """The draws on disk are bit-identical to those of the uninterrupted run, on every machine."""
    tree = xarray.open_datatree(unpack(name), engine="zarr")
    draws = tree.posterior.sizes["draw"]
    assert 6 <= draws < 20  # it is unfinished
    assert tree.attrs["stopped_by"] == "running"
    check(name, arrays(tree), draws, exact=True)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name == "unknown_hyperparameters" else []) for name in RUNS]
)
def test_it_is_resumed_to_the_bit(name, unpack):
    path = unpack(name)
    tree = resume(name, path)
    if not is_comparable(name, "stores.json"):
        pytest.skip("these draws depend on the processor, and they were recorded on another one")
    check(name, arrays(tree), 20, exact=made_here("stores.json"))
    check(name, arrays(xarray.open_datatree(path, engine="zarr")), 20, exact=made_here("stores.json"))
    assert tree.attrs["stopped_by"] == "draws"


def test_a_damaged_one_is_rejected(unpack):
    """A changed byte of a draw is detected."""
    path = unpack("plain")
    chunk = next(file for file in sorted((path / "posterior/f/c").rglob("*")) if file.is_file())
    content = bytearray(chunk.read_bytes())
    content[3] ^= 1
    chunk.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"run\.zarr"):
        resume("plain", path)

"""The short form of `make package`: wheel and sdist are complete."""

from __future__ import annotations

import tomllib
from importlib.metadata import requires
from pathlib import Path

import contents
import pytest
from uses import USES


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    pytest.importorskip("hatchling")
    from hatchling.builders.sdist import SdistBuilder
    from hatchling.builders.wheel import WheelBuilder

    folder = tmp_path_factory.mktemp("built")
    return tuple(
        Path(next(builder(str(contents.ROOT)).build(directory=str(folder), versions=["standard"])))
        for builder in (WheelBuilder, SdistBuilder)
    )


def test_the_wheel_has_every_file_of_the_package(built):
    assert contents.trouble_in_wheel(built[0]) == []
    assert "src/ellipslice/py.typed" in contents.files(contents.ROOT / "src")


def test_the_sdist_has_all_that_the_tests_need(built):
    assert contents.trouble_in_sdist(built[1]) == []


def test_what_is_missing_is_seen(built, monkeypatch, tmp_path):
    """A file that the build does not include is reported."""
    monkeypatch.setattr(contents, "files", lambda folder: {f"{folder.name}/ellipslice/forgotten.csv"})
    assert "the wheel has no ellipslice/ellipslice/forgotten.csv" in contents.trouble_in_wheel(built[0])
    assert "the sdist has no src/ellipslice/forgotten.csv" in contents.trouble_in_sdist(built[1])


def test_every_extra_has_a_use_that_is_checked():
    with (contents.ROOT / "pyproject.toml").open("rb") as file:
        extras = set(tomllib.load(file)["project"]["optional-dependencies"])
    assert set(USES) == extras - {"test", "package", "docs"}


def test_no_dependency_has_an_upper_bound():
    """Upper bounds can make a library impossible to install. Only ruff has one, for the sake of its format."""
    bounded = [line for line in requires("ellipslice") or () if "<" in line.partition(";")[0]]
    assert [line for line in bounded if not line.startswith("ruff")] == []

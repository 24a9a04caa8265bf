"""The command `ellipslice demo`."""

import builtins
from importlib.metadata import version

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

from ellipslice.apps.cli import app

SMALL = ["--draws", "60", "--warmup", "20", "--thin", "1", "--chains", "2", "--seed", "3"]


def ellipslice(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "made" / "on the way"
    result = ellipslice("demo", *SMALL, "--out", out)
    assert result.exit_code == 0, result.output
    return result, out


def test_writes_the_posterior(finished):
    _, out = finished
    with xr.open_datatree(out / "coal_posterior.nc") as tree:
        assert dict(tree["posterior"]["f"].sizes) == {"chain": 2, "draw": 60, "year": 811}
        assert np.isfinite(tree["posterior"]["f"]).all()
        assert (tree["sample_stats"]["evaluations"] >= 1).all()
        assert 1851 < tree["posterior"]["year"].min() < tree["posterior"]["year"].max() < 1963


def test_draws_a_picture(finished):
    _, out = finished
    content = (out / "coal_intensity.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) > 50_000  # an empty figure is smaller


def test_says_how_it_went_and_what_was_learned(finished):
    result, out = finished
    words = result.output
    assert "R-hat" in words
    assert "evaluations" in words
    assert "Explosions per year" in words
    assert "before 1890" in words
    assert str(out / "coal_posterior.nc") in words


@pytest.mark.long
def test_without_matplotlib_the_posterior_is_still_written(tmp_path, monkeypatch):
    found = builtins.__import__

    def missing(name, *arguments, **options):
        if name.split(".")[0] == "matplotlib":
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return found(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    result = ellipslice("demo", *SMALL, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "pip install 'ellipslice[plots]'" in result.output
    assert (tmp_path / "coal_posterior.nc").exists()
    assert not (tmp_path / "coal_intensity.png").exists()


@pytest.mark.parametrize(
    "mistake",
    [
        ["--draws", "many"],
        ["--draws", "0"],
        ["--draws", "-5"],
        ["--chains", "0"],
        ["--warmup", "-1"],
        ["--thin", "0"],
        ["--seed", "-1"],
        ["--drawz", "10"],
    ],
    ids=" ".join,
)
def test_a_mistake_gives_a_sentence_and_exit_code_2(tmp_path, mistake):
    result = ellipslice("demo", *SMALL, "--out", tmp_path, *mistake)
    assert result.exit_code == 2
    assert mistake[0].lstrip("-") in result.output
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_way_is_a_mistake_too(tmp_path):
    (tmp_path / "file").write_text("in the way")
    result = ellipslice("demo", *SMALL, "--out", tmp_path / "file" / "folder")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.output


def test_version():
    result = ellipslice("--version")
    assert result.exit_code == 0
    assert result.output.strip() == f"ellipslice {version('ellipslice')}"


def test_no_arguments_show_the_help():
    assert "demo" in ellipslice().output

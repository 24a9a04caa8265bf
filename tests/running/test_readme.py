"""Every example of the README runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import ellipslice as es

README = Path(__file__).parents[2] / "README.md"
LONG_RUNS = Path(__file__).parents[2] / "docs" / "long_runs.md"
CLUSTER = Path(__file__).parents[2] / "docs" / "cluster.md"


def test_every_python_block_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf8"), re.DOTALL)
    assert len(blocks) >= 4
    size = 200
    names = {
        # What the README leaves to the reader.
        "covariance": np.eye(size),
        "data": None,
        "my_simulator": lambda f: SimpleNamespace(score=lambda data: -0.5 * float(f @ f)),
        "f": np.zeros(size),
        "log_l": None,
        "A": np.ones((3, 2)),
        "labels": [1, -1, 1],
    }
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert "drawn enough to use" in capsys.readouterr().out
    assert names["tree"].posterior.f.shape == (4, 2000, size)
    for name in ("prior", "log_likelihood"):
        assert name in names
    tree = es.sample(names["log_likelihood"], names["prior"], draws=5, warmup=5, seed=0)
    assert set(tree.posterior.data_vars) == {"f", "b"}


@pytest.mark.filterwarnings("ignore:the budget is gone")
def test_the_page_on_long_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    blocks = re.findall(r"```python\n(.*?)```", LONG_RUNS.read_text(encoding="utf8"), re.DOTALL)
    assert len(blocks) == 6
    for block in blocks:
        exec(compile(block, str(LONG_RUNS), "exec"), names)
        if "draws=800" in block:
            assert names["tree"].posterior.f.shape == (4, 800, 50)
    assert names["so_far"].posterior.f.shape == (4, 800, 50)
    assert "800 draws" in capsys.readouterr().out
    assert names["tree"].attrs["stopped_by"] in ("goals", "seconds", "draws")


def test_the_page_on_clusters(tmp_path):
    """Its blocks are one script: workers import it again, as they would a user's."""
    blocks = re.findall(r"```python\n(.*?)```", CLUSTER.read_text(encoding="utf8"), re.DOTALL)
    assert len(blocks) == 3
    (tmp_path / "script.py").write_text("\n".join(blocks))
    said = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert said.returncode == 0, said.stderr
    assert said.stdout.split("\n")[:2] == ["(4, 200, 30)", "(3, 20, 30)"]


def test_the_page_on_the_command_line(tmp_path, monkeypatch):
    """What the page shows is what the commands print, but for the digits; the fit is as it is there."""
    from typer.testing import CliRunner

    from ellipslice.cli import app

    page = README.parent / "docs" / "command_line.md"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "coal_by_year.csv").write_bytes((README.parent / "examples" / "coal_by_year.csv").read_bytes())
    shown = "".join(re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf8"), re.DOTALL))
    commands = re.findall(r"^\$ (ellipslice [^|\n]*)(.*)\n((?:(?!\$ ).*\n)*)", shown, re.MULTILINE)
    assert len(commands) == 4
    for line, piped, expected in commands:
        result = CliRunner().invoke(app, line.split()[1:])
        if piped:
            assert '"good": true' in result.stdout
            assert expected == "True\n"
            continue
        assert masked(result.output) == masked(expected), line


def masked(text: str) -> str:
    """Digits, and the spaces that keep columns straight, are the machine's."""
    return re.sub(r"[ ]+", " ", re.sub(r"[\d,.]+", "0", text)).strip()

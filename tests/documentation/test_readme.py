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
from pages import cells

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.long
def test_every_python_block_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf8"), re.DOTALL)
    assert len(blocks) >= 4
    size = 200
    names = {
        # Names that the README leaves undefined.
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
    assert "The run has converged." in capsys.readouterr().out
    assert names["tree"].posterior.f.shape == (4, 2000, size)
    for name in ("prior", "log_likelihood"):
        assert name in names
    tree = es.sample(names["log_likelihood"], names["prior"], draws=5, warmup=5, seed=0)
    assert set(tree.posterior.data_vars) == {"f", "b"}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:the budget is gone")
def test_the_page_on_long_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    blocks = cells("long_runs")
    assert len(blocks) == 6
    for block in blocks:
        exec(compile(block, "long_runs.md", "exec"), names)
        if "draws=800" in block:
            assert names["tree"].posterior.f.shape == (4, 800, 50)
    assert names["so_far"].posterior.f.shape == (4, 800, 50)
    assert "800 draws" in capsys.readouterr().out
    assert names["tree"].attrs["stopped_by"] in ("goals", "seconds", "draws")


@pytest.mark.long
def test_the_page_on_clusters(tmp_path):
    """The code runs as scripts, because workers import the main module again."""
    said, scripts = [], []
    for cell in cells("cluster"):
        if cell.startswith("%%writefile "):
            first, text = cell.split("\n", 1)
            (tmp_path / first.split()[1]).write_text(text, encoding="utf8")
            continue
        script = cell.removeprefix("!python ").strip() if cell.startswith("!") else "cell.py"
        if script == "cell.py":
            (tmp_path / script).write_text(cell.replace("\ntree.posterior.f.shape", "\nprint(tree.posterior.f.shape)"))
        scripts.append(script)
        run = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert run.returncode == 0, run.stderr
        said.append(run.stdout.strip())
    assert scripts == ["slow.py", "again.py", "cell.py"]
    assert said == ["(4, 200, 30)", "(4, 50, 30)", "(3, 20, 30)"]


@pytest.mark.long
def test_the_page_on_the_command_line(tmp_path, monkeypatch):
    """The commands of the page give the results that it states."""
    from typer.testing import CliRunner

    from ellipslice.apps.cli import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "coal_by_year.csv").write_bytes((README.parent / "examples" / "coal_by_year.csv").read_bytes())
    commands = re.findall(r"^!ellipslice ([^|\n]*)", "\n".join(cells("command_line")), re.MULTILINE)
    fitted, misspelt, again, summary = (CliRunner().invoke(app, line.split()) for line in commands)
    assert "The run has converged." in fitted.output
    assert fitted.exit_code == summary.exit_code == 0
    assert (tmp_path / "run" / "plot.png").is_file()
    assert misspelt.exit_code == again.exit_code == 2
    assert "Did you mean 'year'?" in misspelt.output
    assert "run holds a fit already" in again.output
    assert '"converged": true' in summary.stdout

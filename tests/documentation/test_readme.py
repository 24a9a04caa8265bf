"""The examples of the README, and those of pages that call commands, run and print what is shown; form of the paper."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ellipslice as es
from pages import cells

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_is_short():
    assert len(README.read_text(encoding="utf8").splitlines()) <= 150


@pytest.mark.long
def test_examples_of_the_readme_run_and_print_what_it_shows(capsys):
    text = README.read_text(encoding="utf8")
    first, own, formula = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    names = {}
    exec(compile(first, str(README), "exec"), names)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == shown.splitlines()[:2]  # the numbers of the other lines depend on the processor
    assert [re.sub(r"[\d.,]+", "0", line.split("(")[0]) for line in lines] == [
        re.sub(r"[\d.,]+", "0", line.split("(")[0]) for line in shown.splitlines()
    ]
    exec(compile(own, str(README), "exec"), names)
    assert es.diagnostics.check_convergence(names["tree"]).converged
    names |= simulated_deaths()
    exec(compile(formula, str(README), "exec"), names)
    assert names["fit"].convergence.converged


def simulated_deaths():
    """Return the names that the README's formula uses: a table of deaths, new rows and neighbours on a 5 by 5 grid."""
    rng = np.random.default_rng(1)
    n, column, row = 200, np.arange(25) % 5, np.arange(25) // 5
    distance = abs(column[:, None] - column) + abs(row[:, None] - row)
    df = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "age": rng.integers(40, 60, n),
            "region": rng.integers(0, 25, n),
            "hospital": rng.integers(0, 8, n),
            "E": rng.uniform(5, 10, n),
        }
    )
    slopes = 0.3 * df["x"] + np.sin(df["age"] / 6) + rng.normal(0, 0.3, 8)[df["hospital"]]
    df["deaths"] = rng.poisson(df["E"] * np.exp(slopes - 1))
    return {"df": df, "new_df": df.head(3).drop(columns="deaths"), "W": (distance == 1).astype(int)}


def test_links_of_the_readme_lead_to_files():
    for target in re.findall(r"\]\(([^)]+)\)", README.read_text(encoding="utf8")):
        assert "://" in target or (README.parent / target.partition("#")[0]).is_file(), target


def test_the_paper_has_the_form_that_its_journal_requires():
    """Sections and length: https://joss.readthedocs.io/en/latest/paper.html. Every citation has an entry."""
    folder = README.parent / "joss"
    text = (folder / "paper.md").read_text(encoding="utf8").partition("\n---\n")[2]
    required = (
        *("Summary", "Statement of need", "State of the field", "Software design", "Research impact statement"),
        *("AI usage disclosure", "Acknowledgements", "References"),
    )
    assert tuple(re.findall(r"^# (.+)$", text, re.MULTILINE)) == required
    assert 750 <= len(text.split()) <= 1750
    entries = re.findall(r"@\w+\{(\w+),", (folder / "paper.bib").read_text(encoding="utf8"))
    assert set(re.findall(r"@(\w+)", text)) == set(entries)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*because the budget is spent")
def test_the_page_on_long_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    blocks = cells("how_to/checkpoints")
    assert len(blocks) == 6
    for block in blocks:
        exec(compile(block, "checkpoints.md", "exec"), names)
        if "draws=1500" in block:
            assert names["tree"].posterior.f.shape == (4, 1500, 50)
    assert names["so_far"].posterior.f.shape == (4, 1500, 50)
    assert "1,500 draws" in capsys.readouterr().out
    assert names["tree"].attrs["stopped_by"] in ("goals", "seconds", "draws")


@pytest.mark.long
def test_the_page_on_clusters(tmp_path):
    """The code runs as scripts, because workers import the main module again."""
    said, scripts = [], []
    for cell in cells("how_to/parallel"):
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
    commands = re.findall(r"^!ellipslice ([^|\n]*)", "\n".join(cells("how_to/command_line")), re.MULTILINE)
    scotland = es.data.scotland()
    pd.DataFrame(scotland.columns).to_csv("lip_cancer.csv", index=False)
    pd.DataFrame(scotland.edges, columns=["district", "neighbour"]).to_csv("borders.csv", index=False)
    results = [CliRunner().invoke(app, shlex.split(line)) for line in commands]
    fitted, districts, report, misspelt, again, summary = results
    assert "The run has converged." in districts.output
    assert report.exit_code == districts.exit_code == 0
    assert "The run has converged." in fitted.output
    assert fitted.exit_code == summary.exit_code == 0
    assert (tmp_path / "run" / "plot.png").is_file()
    assert misspelt.exit_code == again.exit_code == 2
    assert "Did you mean 'year'?" in misspelt.output
    assert "run holds a fit already" in again.output
    assert '"converged": true' in summary.stdout

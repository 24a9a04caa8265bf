"""The command `ellipslice explore` and the file that it writes. `tests/browser` tests the page in a browser."""

from __future__ import annotations

import re
import webbrowser

from typer.testing import CliRunner

from ellipslice.apps.cli import app
from ellipslice.apps.explore import page
from explored import FOLDER


def ellipslice(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_writes_one_file(tmp_path):
    out = tmp_path / "made" / "on the way.html"
    result = ellipslice("explore", "--out", out, "--no-browser")
    assert result.exit_code == 0, result.output
    assert result.output == f"wrote {out}\n"
    assert out.read_text(encoding="utf8") == page()


def test_opens_it(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: not opened.append(address))
    result = ellipslice("explore", "--out", tmp_path / "page.html")
    assert result.output.startswith("opened")
    assert opened == [(tmp_path / "page.html").as_uri()]


def test_without_a_name_it_is_a_temporary_file(monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: not opened.append(address))
    result = ellipslice("explore")
    assert result.exit_code == 0
    assert opened[0].endswith("explore.html")


def test_says_so_where_there_is_no_browser(tmp_path, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    result = ellipslice("explore", "--out", tmp_path / "page.html")
    assert "found no browser" in result.output
    assert (tmp_path / "page.html").exists()


def test_a_folder_is_not_a_file(tmp_path):
    result = ellipslice("explore", "--out", tmp_path, "--no-browser")
    assert result.exit_code == 2
    assert "must be a file" in result.output


def test_the_page_needs_nothing_else():
    text = page()
    assert len(text.encode()) < 120_000
    assert not re.search(r"https?://|\bsrc=|@import|\bimport\(|\bfetch\(|url\(", text)
    for script in FOLDER.glob("*.js"):
        assert script.read_text(encoding="utf8") in text, f"{script.name} is not in the page"

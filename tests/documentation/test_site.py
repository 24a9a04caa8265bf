"""The site builds without a warning, and no link is broken.

Cells and examples are not run here: `make docs` runs them. `test_readme.py` and `test_examples.py` run the quick ones.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Build the site in a copy as `make docs` does, but without running cells and examples."""
    pytest.importorskip("sphinx_gallery")
    copy = tmp_path_factory.mktemp("site")
    left_out = shutil.ignore_patterns("_build", "gallery", "*.png.md5", "sg_execution_times.rst")
    shutil.copytree(DOCS, copy / "docs", ignore=left_out)
    for name in ("examples", "src", "benchmarks"):
        (copy / name).symlink_to(ROOT / name)
    for page in ROOT.glob("*.md"):
        shutil.copy(page, copy)
    said = subprocess.run(
        f"{sys.executable} -m sphinx -W --keep-going -q -D nb_execution_mode=off -D plot_gallery=0 docs html".split(),
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert said.returncode == 0, said.stdout + said.stderr
    return copy / "html"


class Links(HTMLParser):
    """The link targets and the anchors of a page."""

    def __init__(self, page: Path):
        super().__init__()
        self.targets: set[str] = set()
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            elif name in ("href", "src") and value:
                self.targets.add(value)


def broken(site: Path) -> set[tuple[str, str]]:
    """Return the broken links of all pages: missing files and missing anchors."""
    pages = {page: Links(page) for page in site.resolve().rglob("*.html")}
    found = set()
    for page, links in pages.items():
        if "_modules" in page.parts:  # links from source code to an anchor may be outdated
            continue
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or target == "#":
                continue
            there = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            place = unquote(parts.fragment)
            lost = place and there in pages and place not in pages[there].places
            if lost or not there.is_file():
                found.add((str(page.relative_to(site.resolve())), target))
    return found


def test_every_link_leads_somewhere(site):
    assert broken(site) == set()


def test_a_broken_link_would_be_seen(tmp_path):
    (tmp_path / "one.html").write_text('<a href="two.html#here">', encoding="utf8")
    (tmp_path / "two.html").write_text('<p id="there"><a href="three.html"><a href="one.html#">', encoding="utf8")
    assert broken(tmp_path) == {("one.html", "two.html#here"), ("two.html", "three.html")}


def test_the_page_to_play_with_is_part_of_the_site(site):
    assert "<title>Elliptical slice sampling" in (site / "_static" / "explore.html").read_text(encoding="utf8")
    assert "_static/explore.html" in (site / "explanation" / "demonstration.html").read_text(encoding="utf8")


def test_the_gallery_has_every_example(site):
    gallery = (site / "gallery" / "index.html").read_text(encoding="utf8")
    examples = [path.stem for path in (ROOT / "examples").glob("*.py")]
    assert len(examples) >= 10
    for name in examples:
        assert f'href="{name}.html' in gallery

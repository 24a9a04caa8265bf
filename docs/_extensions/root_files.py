"""Show Markdown files of the repository's root as pages, with their links rewritten.

The line `(root file: CONTRIBUTING.md)` of a page is replaced by that file without its title.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"^\(root file: (\S+)\)$", re.MULTILINE)
PAGES = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
}
"""Each file with the page that shows it."""


def insert(app, docname: str, source: list[str]) -> None:
    """Replace the line that names a file by the text of the file."""
    up = "../" * docname.count("/")

    def link(match: re.Match[str]) -> str:
        path, mark, place = match[1].partition("#")
        return f"]({up}{PAGES.get(path, path.removeprefix('docs/'))}{mark}{place})"

    def text(match: re.Match[str]) -> str:
        path = ROOT / match[1]
        app.env.note_dependency(str(path), docname=docname)
        _title, _, rest = path.read_text(encoding="utf8").partition("\n")
        return re.sub(r"\]\(((?:docs/|[A-Z]+\.md)[^)]*)\)", link, rest)

    source[0] = LINE.sub(text, source[0])


def setup(app) -> dict[str, bool]:
    """Connect to the reading of pages, before other extensions see them."""
    app.connect("source-read", insert, priority=100)
    return {"parallel_read_safe": True}

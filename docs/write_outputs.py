"""Write the outputs of a page's cells into the page, for readers on GitHub, where cells are not executed.

    python docs/write_outputs.py quickstart tutorials/event_rates     # executes these pages
    python docs/write_outputs.py --built quickstart                   # takes the outputs of the last `make docs`

After each cell with an output there is then a block between two comments. The site does not show these blocks: it has
the outputs of its own build. The first comment holds a checksum of the cells up to this one, by which a test finds
outputs of other code.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import re
from pathlib import Path

DOCS = Path(__file__).parent
IMAGES = DOCS / "images" / "pages"
BUILT = DOCS / "_build" / "cells"
MAX_LINES = 25

BLOCK = re.compile(r"\n\n<!-- output (\w+) -->.*?<!-- end of output -->", re.DOTALL)
CELL = re.compile(r"```{code-cell} ipython3\n.*?\n```(?=\n)", re.DOTALL)
PROGRESS = re.compile(r"(compiling|warm-up)$|[\w-]+ [━·]{24} ")
"""Beginning of the progress display of a run in a notebook. Pages do not show it."""

HIDDEN = re.compile(rf"<(?!xarray\.Dataset)|{PROGRESS.pattern}")
"""Beginning of texts that are left out on GitHub: objects without a readable form, and the progress display."""

FORECAST = "ellipslice: the first convergence check"
"""Beginning of the forecast of a long run, which commands print on a slow machine."""

NOT_SHOWN = ("remove-cell", "remove-output", "hide-output")
KERNEL_OPTIONS = [
    "--InlineBackend.figure_formats=png",
    "--InlineBackend.rc={'figure.figsize': (7.5, 3.5), 'figure.constrained_layout.use': True, 'legend.frameon': False}",
]


def without_outputs(text: str) -> str:
    """Return a page as `write` found it."""
    return BLOCK.sub("", text)


def checksums(text: str) -> list[str]:
    """Return, for each cell of a page, a checksum of the code up to and including it."""
    found, digest = [], hashlib.sha256()
    for cell in CELL.findall(without_outputs(text)):
        digest.update(cell.encode())
        found.append(digest.hexdigest()[:8])
    return found


def executed(path: Path, text: str) -> list[list[dict]]:
    """Execute the cells of a page in its folder. Return the outputs of each."""
    from myst_nb.core.read import read_myst_markdown_notebook
    from nbclient import NotebookClient

    notebook = read_myst_markdown_notebook(text)
    client = NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(path.parent)}})
    client.extra_arguments = KERNEL_OPTIONS
    client.execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def built(path: Path, text: str) -> list[list[dict]]:
    """Return the outputs of each cell of a page in the last build of the site that had the same cells."""
    from jupyter_cache import get_cache
    from myst_nb.core.read import read_myst_markdown_notebook

    notebook = read_myst_markdown_notebook(text)
    for folder in sorted(BUILT.glob("*"), key=lambda folder: folder.stat().st_mtime, reverse=True):
        cache = get_cache(folder)
        try:
            found = cache.get_cache_bundle(cache.match_cache_notebook(notebook).pk).nb
        except KeyError:
            continue
        return [cell.outputs for cell in found.cells if cell.cell_type == "code"]
    raise SystemExit(f"{path} is not in the last build. Run `make docs` first, or leave out --built.")


def picture_of(output: dict) -> bytes:
    """Return the PNG of an output, in the size in which the site shows it."""
    content = base64.b64decode(output["data"]["image/png"])
    size = output.get("metadata", {}).get("image/png", {})
    if not size:
        return content
    from PIL import Image

    small = io.BytesIO()
    Image.open(io.BytesIO(content)).resize((size["width"], size["height"]), Image.Resampling.LANCZOS).save(
        small, "png", optimize=True
    )
    return small.getvalue()


def shown(outputs: list[dict], picture: Path, page: Path) -> list[str]:
    """Return the Markdown of the outputs of one cell. A plot is written to `picture`."""
    parts, text = [], ""
    for output in outputs:
        data = output.get("data", {})
        if output["output_type"] == "stream" and output["name"] == "stdout":
            text += output["text"]
        elif "image/png" in data:
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_bytes(picture_of(output))
            up = "../" * len(page.relative_to(DOCS).parent.parts)
            parts.append(f"![plot of the cell above]({up}{picture.relative_to(DOCS)})")
        elif "text/plain" in data and not HIDDEN.match(data["text/plain"]):
            text += data["text/plain"] + "\n"
    printed = [line for line in text.splitlines() if not line.startswith(FORECAST)]
    if printed:
        more = ["..."] if len(printed) > MAX_LINES else []
        parts.insert(0, "\n".join(["```text", *printed[:MAX_LINES], *more, "```"]))
    return parts


def write(name: str, from_build: bool) -> None:
    """Write the outputs of a page into it: those of the last build, or those of an execution."""
    path = DOCS / f"{name}.md"
    text = without_outputs(path.read_text(encoding="utf8"))
    outputs = built(path, text) if from_build else executed(path, text)
    for old in IMAGES.glob(f"{name.replace('/', '_')}_*.png"):
        old.unlink()
    sums, number = checksums(text), iter(range(len(text)))

    def with_output(match: re.Match[str]) -> str:
        i = next(number)
        if any(tag in match[0] for tag in NOT_SHOWN):
            return match[0]
        parts = shown(outputs[i], IMAGES / f"{name.replace('/', '_')}_{i + 1}.png", path)
        block = "\n\n".join([f"<!-- output {sums[i]} -->", *parts, "<!-- end of output -->"])
        return f"{match[0]}\n\n{block}" if parts else match[0]

    path.write_text(CELL.sub(with_output, text), encoding="utf8")
    print(f"written: {path.relative_to(DOCS)}")  # noqa: T201


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--built", action="store_true", help="take the outputs of the last `make docs`")
    parser.add_argument("pages", nargs="+", help="names of pages in docs, without .md")
    given = parser.parse_args()
    for page in given.pages:
        write(page, given.built)

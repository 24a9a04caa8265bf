"""Write the outputs of a page's cells into the page, for readers on GitHub, where cells are not executed.

    python docs/write_outputs.py quickstart tutorials/event_rates     # executes these pages

After each cell with an output there is then a block between two comments. The site does not show these blocks: it has
the outputs of its own build. The first comment holds a checksum of the cells up to this one, by which a test finds
outputs of other code.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
IMAGES = DOCS / "images" / "pages"
MAX_LINES = 25

BLOCK = re.compile(r"\n\n<!-- output (\w+) -->.*?<!-- end of output -->", re.DOTALL)
CELL = re.compile(r"```{code-cell} ipython3\n.*?\n```(?=\n)", re.DOTALL)
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


def shown(outputs: list[dict], picture: Path, page: Path) -> list[str]:
    """Return the Markdown of the outputs of one cell. A plot is written to `picture`."""
    parts, printed = [], []
    for output in outputs:
        data = output.get("data", {})
        if output["output_type"] == "stream" and output["name"] == "stdout":
            printed += output["text"].splitlines()
        elif "image/png" in data:
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_bytes(base64.b64decode(data["image/png"]))
            up = "../" * len(page.relative_to(DOCS).parent.parts)
            parts.append(f"![plot of the cell above]({up}{picture.relative_to(DOCS)})")
        elif "text/plain" in data and "text/html" not in data and not data["text/plain"].startswith("<"):
            printed += data["text/plain"].splitlines()
    if printed:
        more = ["..."] if len(printed) > MAX_LINES else []
        parts.insert(0, "\n".join(["```text", *printed[:MAX_LINES], *more, "```"]))
    return parts


def write(name: str) -> None:
    """Execute a page and write the outputs into it."""
    path = DOCS / f"{name}.md"
    text = without_outputs(path.read_text(encoding="utf8"))
    for old in IMAGES.glob(f"{name.replace('/', '_')}_*.png"):
        old.unlink()
    outputs, sums, number = executed(path, text), checksums(text), iter(range(len(text)))

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
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for page in sys.argv[1:]:
        write(page)

"""Offer each page with code as a Jupyter notebook: a file next to the page, and a link at its end."""

from pathlib import Path

import nbformat
from docutils import nodes
from myst_nb.core.read import read_myst_markdown_notebook
from write_outputs import without_outputs

HEADER = "---\nfile_format: mystnb\n"


def has_cells(app, docname: str) -> bool:
    """Return whether the source of a page is a MyST notebook."""
    path = Path(app.env.doc2path(docname))
    return path.suffix == ".md" and path.read_text(encoding="utf8").startswith(HEADER)


def name_language(app, docname: str, source: list[str]) -> None:
    """Name the language of the cells of a page. Without execution there is no kernel that would."""
    if app.config.nb_execution_mode == "off":
        source[0] = source[0].replace("\n  name: python3\n", "\n  name: python3\n  language: ipython3\n", 1)


def add_link(app, doctree, docname: str) -> None:
    """Append the link to a page with code."""
    if app.builder.format != "html" or not has_cells(app, docname):
        return
    name = docname.rpartition("/")[2] + ".ipynb"
    link = nodes.reference("", "Download this page as a Jupyter notebook", refuri=name, internal=True)
    next(doctree.findall(nodes.section)).append(nodes.paragraph("", "", link, classes=["download"]))


def write_notebooks(app, exception) -> None:
    """Write the notebooks, without outputs."""
    if exception is not None or app.builder.format != "html":
        return
    for docname in sorted(app.env.found_docs):
        if has_cells(app, docname):
            text = Path(app.env.doc2path(docname)).read_text(encoding="utf8")
            notebook = read_myst_markdown_notebook(without_outputs(text))
            nbformat.write(notebook, Path(app.outdir, f"{docname}.ipynb"))


def setup(app) -> dict[str, bool]:
    """Connect to the reading of pages, to the end of each page and to the end of the build."""
    app.connect("source-read", name_language)
    app.connect("doctree-resolved", add_link)
    app.connect("build-finished", write_notebooks)
    return {"parallel_read_safe": True}

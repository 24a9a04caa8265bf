"""Remove the progress display of runs from the outputs of cells: its numbers depend on the machine."""

from docutils import nodes
from write_outputs import PROGRESS


def remove(app, doctree, docname: str) -> None:
    """Remove the progress lines of a page, and the frames of outputs that have no other content."""
    for output in list(
        doctree.findall(lambda node: "cell_output" in getattr(node, "attributes", {}).get("classes", ()))
    ):
        for line in list(output.findall(nodes.literal_block)):
            if PROGRESS.match(line.astext()):
                line.parent.remove(line)
        if not output.astext() and not list(output.findall(nodes.image)) and not list(output.findall(nodes.raw)):
            output.parent.remove(output)


def setup(app) -> dict[str, bool]:
    """Connect to the end of each page."""
    app.connect("doctree-resolved", remove)
    return {"parallel_read_safe": True}

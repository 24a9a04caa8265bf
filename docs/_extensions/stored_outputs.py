"""Leave out the outputs that `write_outputs.py` wrote into pages: the site shows those of its own build."""

from write_outputs import without_outputs


def remove(app, docname: str, source: list[str]) -> None:
    """Remove the blocks from the text of a page."""
    source[0] = without_outputs(source[0])


def setup(app) -> dict[str, bool]:
    """Connect to the reading of pages, before other extensions see them."""
    app.connect("source-read", remove, priority=50)
    return {"parallel_read_safe": True}

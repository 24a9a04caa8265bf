"""Write the interactive demonstration into the site."""

from pathlib import Path

from ellipslice.apps import explore


def write_explorer(app, exception) -> None:
    """Write `_static/explore.html`, made anew at every build."""
    if exception is None and app.builder.format == "html":
        Path(app.outdir, "_static", "explore.html").write_text(explore.page(), encoding="utf8")


def setup(app) -> dict[str, bool]:
    """Connect to the end of the build."""
    app.connect("build-finished", write_explorer)
    return {"parallel_read_safe": True}

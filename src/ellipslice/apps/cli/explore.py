"""`ellipslice explore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ellipslice.apps.cli.output import readable_errors


def explore(
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write; one among temporary files unless given.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open it, or only write it.")] = True,
) -> None:
    """Play with an update of elliptical slice sampling in the browser: one page, no network.

    To keep it, or to put it on a web site: ellipslice explore --out explore.html --no-browser
    """
    with readable_errors():
        from ellipslice.apps.explore import show

        typer.echo(show(out, browser))

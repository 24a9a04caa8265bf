"""`ellipslice explore`: the interactive demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ellipslice.apps.cli.output import readable_errors


def explore(
    out: Annotated[Path | None, typer.Option(help="HTML file to write. Default: a new temporary file.")] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser, or only write the file.")] = True,
) -> None:
    """Open an interactive demonstration of elliptical slice sampling in the browser.

    It is one HTML page, which needs no network. To keep the page or to put it on a web site:

    \b
    ellipslice explore --out explore.html --no-browser
    """  # noqa: D301  click reads the \b
    with readable_errors():
        from ellipslice.apps.explore import show

        typer.echo(show(out, browser))

"""The command line.

- `fit`: `ellipslice fit`
- `fit_settings`: settings of a fit, from the options of `ellipslice fit`
- `resume`: `ellipslice resume`
- `inspect`: `ellipslice summary`, `plot` and `report`
- `demo`: `ellipslice demo`
- `explore`: `ellipslice explore`
- `paper`: `ellipslice paper`
- `bench`: `ellipslice bench`
- `output`: shared options, printing, error handling and exit codes
"""

from __future__ import annotations

import io
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from ellipslice.apps.cli import bench, demo, explore, fit, inspect, paper, resume
from ellipslice.apps.cli.paper import ALL_METHODS, ALL_PROBLEMS

__all__ = ["ALL_METHODS", "ALL_PROBLEMS", "app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Elliptical slice sampling (Murray, Adams & MacKay 2010).",
    epilog="Exit codes: 0 success; 1 failure of the machine, for example a full disk; 2 invalid arguments or data; "
    "130 interrupted by Ctrl-C.",
)


def main() -> None:
    """Run the command line: the entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names of files and columns may contain characters that the terminal's encoding lacks.
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="ellipslice")


def show_version(requested: bool) -> None:
    """Print the version and exit, if `requested`."""
    if requested:
        typer.echo(f"ellipslice {version('ellipslice')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Define the options that come before a command."""


for command in (
    fit.fit, resume.resume, inspect.summary, inspect.plot, inspect.report, demo.demo, explore.explore, paper.paper,
    bench.bench,
):  # fmt: skip
    app.command()(command)

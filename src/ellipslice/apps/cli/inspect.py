"""`ellipslice summary`, `plot` and `report`: what a fit says, also while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ellipslice.apps.cli.output import Json, Quiet, RunPath, print_summary, readable_errors, readable_warnings


def summary(folder: RunPath, json_: Json = False) -> None:
    """Print the parameters, their effective sample sizes and R-hat, and the convergence report. Also while a fit runs.

    \b
    ellipslice summary run
    ellipslice summary run --json | jq .parameters.length_scale.mean
    """  # noqa: D301  click reads the \b
    with readable_errors(), readable_warnings(quiet=json_):
        print_summary(*_opened(folder), json_=json_, quiet=False)


def plot(
    folder: RunPath,
    out: Annotated[
        Path | None, typer.Option(help="PNG, PDF or SVG to write; plot.png in the folder unless given.")
    ] = None,
    variable: Annotated[str | None, typer.Option(help="expected, predictive or latent.")] = None,
    quiet: Quiet = False,
) -> None:
    """Draw the fit: a curve with intervals for one input, maps for two. Also while a fit runs.

    \b
    ellipslice plot run
    ellipslice plot run --variable latent --out latent.pdf
    """  # noqa: D301  click reads the \b
    with readable_errors(), readable_warnings(quiet):
        from ellipslice.apps.fits.picture import MOST_INPUTS, draw_fit

        path = folder / "plot.png" if out is None else out
        if path.suffix.lower() not in (".png", ".pdf", ".svg"):
            raise ValueError(f"--out must end in .png, .pdf or .svg, but it is {path}.")
        opened, fit = _opened(folder)
        if len(opened.asked.inputs) > MOST_INPUTS:
            raise ValueError(f"there are {len(opened.asked.inputs)} inputs, and a picture has one or two.")
        figure = draw_fit(opened, fit, variable)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
        _wrote(path, quiet)


def report(
    folder: RunPath,
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write; report.html in the folder unless given.", dir_okay=False)
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page with the plots, the parameters, the convergence report and how to reproduce the fit.

    \b
    ellipslice report run
    ellipslice report run --out tuesday.html
    """  # noqa: D301  click reads the \b
    with readable_errors(), readable_warnings(quiet):
        from ellipslice.apps.fits.report import write_report

        _wrote(write_report(*_opened(folder), out), quiet)


def _opened(folder: Path) -> tuple[Any, Any]:
    from ellipslice.apps.fits.folder import open_folder

    opened = open_folder(folder)
    return opened, opened.fit()


def _wrote(path: Path, quiet: bool) -> None:
    if not quiet:
        typer.echo(f"wrote {path}")

"""`ellipslice summary`, `plot` and `report`: results of a fit, finished or running."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ellipslice.apps.cli.output import Json, Quiet, RunPath, print_summary, readable_errors, readable_warnings


def summary(folder: RunPath, json_: Json = False) -> None:
    """Print the hyperparameters, their effective sample sizes and R-hat, and the convergence report.

    Works on a finished fit and while a fit runs.

    \b
    ellipslice summary run
    ellipslice summary run --json | jq .parameters.length_scale.mean
    """  # noqa: D301  click reads the \b
    with readable_errors(), readable_warnings(quiet=json_):
        print_summary(*_open(folder), json_=json_, quiet=False)


def plot(
    folder: RunPath,
    out: Annotated[
        Path | None, typer.Option(help="PNG, PDF or SVG file to write. Default: plot.png in the folder.")
    ] = None,
    variable: Annotated[
        str | None,
        typer.Option(
            help="Quantity to plot: expected (mean of an observation), predictive (a new observation) or latent "
            "(latent function). Default: expected. With a formula: a term or a hyperparameter; default: all terms."
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Plot a fit: a curve with intervals for one input, maps for two inputs, effects for a formula.

    Works on a finished fit and while a fit runs.

    \b
    ellipslice plot run
    ellipslice plot run --variable latent --out latent.pdf
    """  # noqa: D301  click reads the \b
    with readable_errors(), readable_warnings(quiet):
        path = folder / "plot.png" if out is None else out
        if path.suffix.lower() not in (".png", ".pdf", ".svg"):
            raise ValueError(f"--out must end in .png, .pdf or .svg, but it is {path}. Choose one of these formats.")
        opened, fit = _open(folder)
        reason = opened.kind.no_plot(opened)
        if reason:
            raise ValueError(f"{reason}. See predictions.csv and `ellipslice report`.")
        figure = opened.kind.draw(opened, fit, variable)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
        _print_path(path, quiet)


def report(
    folder: RunPath,
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write. Default: report.html in the folder.", dir_okay=False)
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write an HTML report of a fit: plots, a table, convergence and how to reproduce it.

    With a formula: also a posterior predictive check and a comparison with Laplace.

    Works on a finished fit and while a fit runs.

    \b
    ellipslice report run
    ellipslice report run --out tuesday.html
    """  # noqa: D301  click reads the \b
    with readable_errors(), readable_warnings(quiet):
        from ellipslice.apps.fits.report import write_report

        _print_path(write_report(*_open(folder), out), quiet)


def _open(folder: Path) -> tuple[Any, Any]:
    from ellipslice.apps.fits.folder import open_folder

    opened = open_folder(folder)
    return opened, opened.fit()


def _print_path(path: Path, quiet: bool) -> None:
    if not quiet:
        typer.echo(f"wrote {path}")

"""`ellipslice resume`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ellipslice.apps.cli.output import Decimal, Delimiter, DropMissing, Json, Quiet, RunPath, readable_errors, run


def resume(
    folder: RunPath,
    draws: Annotated[int | None, typer.Option(help="Of each chain in all, those that are there included.")] = None,
    effective_sample_size: Annotated[float | None, typer.Option(help="Another goal: so many effective draws.")] = None,
    rhat: Annotated[float | None, typer.Option(help="Another goal: R-hat at most this.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="A budget: stop after so long.")] = None,
    predict_at: Annotated[
        Path | None, typer.Option(help="A table with inputs to predict at; the data's unless given.")
    ] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    drop_missing: DropMissing = False,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a fit that was stopped or killed, or add draws to one.

    The finished fit is that of an uninterrupted run, to the last bit.

    \b
    ellipslice resume run
    ellipslice resume run --draws 5000
    ellipslice resume run --predict-at new_inputs.csv
    """  # noqa: D301  click reads the \b
    with readable_errors():
        from ellipslice import Until
        from ellipslice.apps.fits.folder import open_folder
        from ellipslice.apps.fits.table import Table

        opened = open_folder(folder)
        elsewhere = None
        if predict_at is not None:
            elsewhere = Table(predict_at, delimiter=delimiter, decimal=decimal, drop_missing=drop_missing)
            opened.check_at(elsewhere)
        goals = effective_sample_size is not None or rhat is not None or max_seconds is not None
        until = Until(effective_sample_size, rhat, max_seconds, draws) if goals else None
    run(opened, draws=None if until else draws, until=until, at=elsewhere, json_=json_, quiet=quiet)

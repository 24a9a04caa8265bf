"""`ellipslice resume`: continue a fit."""

from __future__ import annotations

from typing import Annotated

import typer

from ellipslice.apps.cli.output import (
    Decimal,
    Delimiter,
    DropMissing,
    Json,
    PredictAt,
    Quiet,
    RunPath,
    readable_errors,
    run,
)


def resume(
    folder: RunPath,
    draws: Annotated[
        int | None,
        typer.Option(
            help="Total number of draws per chain, including those already stored. With a goal or --max-seconds: at "
            "most this number. Default: that of the fit."
        ),
    ] = None,
    effective_sample_size: Annotated[
        float | None, typer.Option(help="Goal: stop at this effective sample size. Default: none.")
    ] = None,
    rhat: Annotated[float | None, typer.Option(help="Goal: stop when R-hat is at most this. Default: none.")] = None,
    max_seconds: Annotated[
        float | None, typer.Option(help="Budget: stop after this many seconds. Default: none.")
    ] = None,
    predict_at: PredictAt = None,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    drop_missing: DropMissing = False,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Resume a fit that was interrupted or killed, or add draws to a finished one.

    The finished fit is bit-identical to that of an uninterrupted run.
    --draws, --effective-sample-size, --rhat and --max-seconds replace all
    goals and budgets of the fit. Without them, those of the fit apply.

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
        at = None
        if predict_at is not None:
            at = Table(predict_at, delimiter=delimiter, decimal=decimal, drop_missing=drop_missing)
            opened.check_prediction_inputs(at)
        goals = effective_sample_size is not None or rhat is not None or max_seconds is not None
        until = Until(effective_sample_size, rhat, max_seconds, draws) if goals else None
    run(opened, draws=None if until else draws, until=until, at=at, json_=json_, quiet=quiet)

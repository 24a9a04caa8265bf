"""`ellipslice fit`: from a table to draws, predictions and a picture."""

from __future__ import annotations

import secrets
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ellipslice.apps.cli.output import (
    EXIT_USAGE,
    Decimal,
    Delimiter,
    DropMissing,
    Json,
    Quiet,
    readable_errors,
    readable_warnings,
    run,
)
from ellipslice.likelihoods import REGISTERED
from ellipslice.likelihoods.command import Command

COMMANDS = [cls.command for cls in REGISTERED if cls.command is not None]


def _named(command: Command) -> str:
    """Return a likelihood's names as the help lists them: "logistic (or bernoulli)"."""
    return command.name + (f" (or {', '.join(command.other_names)})" if command.other_names else "")


def _those_with(option: str) -> str:
    """Return the names of the likelihoods that have an option: "gaussian and student-t"."""
    return " and ".join(command.name for command in COMMANDS if option in command.options)


def fit(
    data: Annotated[Path, typer.Argument(help="A CSV file, or a Parquet file by its ending.", metavar="DATA")],
    x: Annotated[
        list[str] | None, typer.Option("--x", "-x", help="Column with an input: time, place. May be repeated.")
    ] = None,
    y: Annotated[str | None, typer.Option("--y", "-y", help="Column with what was seen there.")] = None,
    events: Annotated[
        list[str] | None,
        typer.Option(help="In place of --x and --y: column with when (or where; repeated) each event was."),
    ] = None,
    likelihood: Annotated[
        str | None,
        typer.Option(
            help=", ".join(map(_named, COMMANDS)) + ".",
            autocompletion=lambda: _names("LIKELIHOODS"),
        ),
    ] = None,
    kernel: Annotated[
        str,
        typer.Option(
            help="matern12, matern32, matern52 or squared-exponential.", autocompletion=lambda: _names("KERNELS")
        ),
    ] = "matern52",
    out: Annotated[Path, typer.Option(help="Folder to write into; made if missing.", file_okay=False)] = Path("run"),
    length_scale: Annotated[
        list[float] | None, typer.Option(help="Fix it, in units of the input; once, or once for each --x.")
    ] = None,
    amplitude: Annotated[float | None, typer.Option(help="Fix the latent function's standard deviation.")] = None,
    noise_scale: Annotated[
        float | None, typer.Option(help=f"Fix the noise scale of {_those_with('noise_scale')}.")
    ] = None,
    dispersion: Annotated[
        float | None, typer.Option(help=f"Fix the dispersion of {_those_with('dispersion')}.")
    ] = None,
    mean: Annotated[float | None, typer.Option(help="Of the latent function; from the data unless given.")] = None,
    exposure: Annotated[str | None, typer.Option(help="Column that multiplies a count's rate: area, hours.")] = None,
    trials: Annotated[
        str | None, typer.Option(help=f"Column with the number of trials, for {_those_with('trials')}.")
    ] = None,
    window: Annotated[
        list[str] | None, typer.Option(help="Of events: LOW,HIGH for each --events; from the data unless given.")
    ] = None,
    cells: Annotated[list[int] | None, typer.Option(help="To count events in, along each --events.")] = None,
    draws: Annotated[
        int | None, typer.Option(help="Draws kept, per chain: 1000 unless given; with goals, at most.")
    ] = None,
    warmup: Annotated[int, typer.Option(help="Updates discarded first, per chain.")] = 500,
    chains: Annotated[int, typer.Option(help="Independent chains.")] = 4,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same bits; drawn unless given.")] = None,
    effective_sample_size: Annotated[
        float | None, typer.Option(help="A goal: stop at so many effective draws.")
    ] = None,
    rhat: Annotated[float | None, typer.Option(help="A goal: stop when R-hat is at most this, such as 1.01.")] = None,
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
    """Fit a Gaussian process to a table; write draws, predictions and a picture into a folder.

    Parameters that are not given are unknown, with wide priors scaled to the data, and drawn as well.

    For example:

    \b
    ellipslice fit counts.csv --x time --y count --likelihood poisson --out run
    ellipslice fit sites.parquet --x lon --x lat --y found --likelihood logistic
    ellipslice fit coal.csv --events date --cells 112 --kernel squared-exponential
    ellipslice fit data.csv --x t --y value --effective-sample-size 1000 --max-seconds 600

    Then: ellipslice report run; and if it was stopped, ellipslice resume run.
    """  # noqa: D301  click reads the \b
    with readable_errors(), readable_warnings(quiet or json_):
        from ellipslice.apps.fits import Asked, begin
        from ellipslice.apps.fits.settings import as_named
        from ellipslice.apps.fits.table import Table

        table = Table(data, delimiter=delimiter, decimal=decimal, drop_missing=drop_missing)
        elsewhere = (
            None
            if predict_at is None
            else Table(predict_at, delimiter=delimiter, decimal=decimal, drop_missing=drop_missing)
        )
        if events and (x or y):
            raise ValueError(
                "--events was given beside --x or --y. Events have no other column: give one or the other."
            )
        if x and not y:
            raise ValueError("--x was given without --y, the column with what was seen there.")
        if y and not x:
            raise ValueError("--y was given without --x, the column with where it was seen.")
        asked = Asked(
            inputs=tuple(events or x or ()),
            target=y,
            likelihood=as_named(likelihood or ("poisson" if events else "gaussian")),
            kernel=as_named(kernel), amplitude=amplitude, length_scale=_tuple(length_scale), noise_scale=noise_scale,
            dispersion=dispersion, mean=mean, exposure=exposure, trials=trials,
            window=None if window is None else tuple(_pair(text) for text in window), cells=_tuple(cells),
            draws=draws, warmup=warmup, chains=chains, seed=secrets.randbits(32) if seed is None else seed,
            effective_sample_size=effective_sample_size, rhat=rhat, max_seconds=max_seconds,
        )  # fmt: skip
        folder = begin(table, asked, out, _command(seed, asked.seed), elsewhere)
    try:
        run(folder, at=elsewhere, json_=json_, quiet=quiet)
    except typer.Exit as left:
        if left.exit_code == EXIT_USAGE and not folder.store.exists():
            shutil.rmtree(folder.path, ignore_errors=True)  # seen late, but still a mistake: nothing is left
        raise


def _names(which: str) -> list[str]:
    from ellipslice.apps.fits import settings

    return list(getattr(settings, which))


def _tuple(values: list[Any] | None) -> tuple[Any, ...] | None:
    return tuple(values) if values else None


def _pair(text: str) -> tuple[float, float]:
    parts = text.split(",")
    try:
        low, high = (float(part) for part in parts)
    except ValueError:
        raise ValueError(f"--window must be LOW,HIGH, two numbers, but it is {text!r}.") from None
    return low, high


def _command(given: int | None, seed: int) -> str:
    """The command line, with the seed that was drawn."""
    own = ["ellipslice", *sys.argv[1:]]
    return shlex.join(own if given is not None else [*own, "--seed", str(seed)])

"""`ellipslice fit`: fit a Gaussian process to a table."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from ellipslice.apps.cli.fit_settings import make_settings
from ellipslice.apps.cli.output import (
    EXIT_USAGE,
    Decimal,
    Delimiter,
    DropMissing,
    Json,
    PredictAt,
    Quiet,
    readable_errors,
    readable_warnings,
    run,
)
from ellipslice.likelihoods import REGISTERED
from ellipslice.likelihoods.command import Command

UNKNOWN = "Default: unknown, inferred from the data."
"""End of the help of a hyperparameter."""

COMMANDS = [cls.command for cls in REGISTERED if cls.command is not None]


def _named(command: Command) -> str:
    """Return the names of a likelihood as the help lists them: "logistic (or bernoulli)"."""
    return command.name + (f" (or {', '.join(command.other_names)})" if command.other_names else "")


def _likelihoods_with(option: str) -> str:
    """Return the names of the likelihoods that take `option`: "gaussian and student-t"."""
    return " and ".join(command.name for command in COMMANDS if option in command.options)


def fit(
    context: typer.Context,
    data: Annotated[
        Path,
        typer.Argument(help="Table: a CSV file, or a Parquet file (ending .parquet or .pq).", metavar="DATA"),
    ],
    x: Annotated[
        list[str] | None,
        typer.Option("--x", "-x", help="Column with an input: numbers or dates. Repeat it for several inputs."),
    ] = None,
    y: Annotated[str | None, typer.Option("--y", "-y", help="Column with the observations (response).")] = None,
    events: Annotated[
        list[str] | None,
        typer.Option(
            help="Instead of --x and --y: column with the time or coordinate of each event. Repeat it for several "
            "coordinates. Events are counted in cells."
        ),
    ] = None,
    formula: Annotated[
        str | None,
        typer.Option(
            help="Instead of --x and --y: formula of a latent Gaussian model, such as 'y ~ x + (1 | clinic)'."
        ),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            help="With --formula: distribution of the response, such as poisson, negative_binomial, binomial or "
            "bernoulli. Default: gaussian."
        ),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(help="With --formula: link of bernoulli and binomial, logit, probit or cloglog. Default: logit."),
    ] = None,
    graph: Annotated[
        list[str] | None,
        typer.Option(
            help="With --formula: graph of regions, NAME=FILE, for bym2(region, graph=NAME). FILE is a list of "
            "edges (CSV with two columns), a GAL file, or GeoJSON polygons (FILE:PROPERTY, the property with the names "
            "of regions). Default: none."
        ),
    ] = None,
    likelihood: Annotated[
        str | None,
        typer.Option(
            help="Likelihood: " + ", ".join(map(_named, COMMANDS)) + ". Default: gaussian; with --events: poisson.",
            autocompletion=lambda: _names("LIKELIHOODS"),
        ),
    ] = None,
    kernel: Annotated[
        str,
        typer.Option(
            help="Kernel: matern12, matern32, matern52 or squared-exponential.",
            autocompletion=lambda: _names("KERNELS"),
        ),
    ] = "matern52",
    out: Annotated[
        Path, typer.Option(help="Folder to write to. It is created if it does not exist.", file_okay=False)
    ] = Path("run"),
    length_scale: Annotated[
        list[float] | None,
        typer.Option(
            help="Fix the length scale, in units of the input (days for dates). Give it once, or once per input. "
            f"{UNKNOWN}"
        ),
    ] = None,
    amplitude: Annotated[
        float | None, typer.Option(help=f"Fix the prior standard deviation of the latent function. {UNKNOWN}")
    ] = None,
    noise_scale: Annotated[
        float | None, typer.Option(help=f"Fix the noise scale of {_likelihoods_with('noise_scale')}. {UNKNOWN}")
    ] = None,
    dispersion: Annotated[
        float | None, typer.Option(help=f"Fix the dispersion of {_likelihoods_with('dispersion')}. {UNKNOWN}")
    ] = None,
    mean: Annotated[
        float | None, typer.Option(help="Mean of the latent function. Default: computed from the data.")
    ] = None,
    exposure: Annotated[
        str | None,
        typer.Option(help="Column that multiplies the rate of a count, such as area or hours. Default: exposure 1."),
    ] = None,
    trials: Annotated[
        str | None,
        typer.Option(
            help=f"Column with the number of trials. Required for {_likelihoods_with('trials')}, and only for "
            "distributions of that kind."
        ),
    ] = None,
    window: Annotated[
        list[str] | None,
        typer.Option(
            help="Window of the events: LOW,HIGH, once or once per --events. Default: the range of the events."
        ),
    ] = None,
    cells: Annotated[
        list[int] | None,
        typer.Option(
            help="Number of cells in which events are counted, once or once per --events. Default: 100 for one "
            "coordinate, 20 each for two, 8 each for three."
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            help="Number of draws per chain. With a goal or --max-seconds: at most this number. Default: until the run "
            "has converged; with a goal or --max-seconds: 100000."
        ),
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(
            help="Number of warm-up updates per chain, which are discarded. Default: 500; with --formula: 50."
        ),
    ] = None,
    chains: Annotated[int, typer.Option(help="Number of chains.")] = 4,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the random numbers. The same seed reproduces the draws. Default: a random seed."),
    ] = None,
    effective_sample_size: Annotated[
        float | None, typer.Option(help="Goal: stop at this effective sample size. Default: none.")
    ] = None,
    rhat: Annotated[
        float | None, typer.Option(help="Goal: stop when R-hat is at most this, for example 1.01. Default: none.")
    ] = None,
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
    """Fit a Gaussian process or a formula to a table. Write draws, predictions and a plot to a folder.

    Hyperparameters that you do not fix are unknown: they are sampled, too.
    Their priors are log-normal, wide, and scaled to the data.

    For example:

    \b
    ellipslice fit counts.csv --x time --y count --likelihood poisson --out run
    ellipslice fit sites.parquet --x lon --x lat --y found --likelihood logistic
    ellipslice fit coal.csv --events date --cells 112 --kernel squared-exponential
    ellipslice fit visits.csv --formula "visits ~ age + (1 | clinic)" --family poisson
    ellipslice fit data.csv --x t --y value --effective-sample-size 1000 --max-seconds 600

    Next: ellipslice report run. After an interrupt: ellipslice resume run.
    """  # noqa: D301  click reads the \b
    with readable_errors(), readable_warnings(quiet or json_):
        from ellipslice.apps.fits import begin
        from ellipslice.apps.fits.table import Table

        table = Table(data, delimiter=delimiter, decimal=decimal, drop_missing=drop_missing)
        at = (
            None
            if predict_at is None
            else Table(predict_at, delimiter=delimiter, decimal=decimal, drop_missing=drop_missing)
        )
        settings = make_settings(context)
        folder = begin(table, settings, out, _command(seed, settings.seed), at)
    try:
        run(folder, at=at, json_=json_, quiet=quiet)
    except typer.Exit as stopped:
        if stopped.exit_code == EXIT_USAGE and not folder.store.exists():
            shutil.rmtree(folder.path, ignore_errors=True)  # a mistake leaves nothing behind, even if it is found late
        raise


def _names(which: str) -> list[str]:
    """Return the names in a table of `apps.fits.settings`, for the completion in a shell."""
    from ellipslice.apps.fits import settings

    return list(getattr(settings, which))


def _command(given: int | None, seed: int) -> str:
    """Return the command line that reproduces the fit, including a seed that was chosen at random."""
    words = ["ellipslice", *sys.argv[1:]]
    return shlex.join(words if given is not None else [*words, "--seed", str(seed)])

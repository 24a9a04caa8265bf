"""Shared by the commands: options, printing of errors, warnings and results, and exit codes."""

from __future__ import annotations

import errno
import json
import shlex
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

MACHINE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EMFILE, errno.ENOMEM}
"""Error numbers that mean a failure of the machine, not a mistake of the user."""

EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
"""Exit codes."""

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors, and no progress. Default: off.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text, for scripts. Default: off.")]
Delimiter = Annotated[
    str | None,
    typer.Option(
        help="Delimiter of a CSV file: one character, or tab. Default: detected in the first line (comma, semicolon, "
        "tab or vertical bar)."
    ),
]
Decimal = Annotated[str, typer.Option(help="Decimal mark in a CSV file: a point or a comma.")]
DropMissing = Annotated[
    bool,
    typer.Option(
        "--drop-missing",
        help="Drop rows with a missing value, in the data and in the table of --predict-at. Default: a missing value "
        "is an error.",
    ),
]
PredictAt = Annotated[
    Path | None,
    typer.Option(help="CSV or Parquet file with inputs for predictions. Default: the inputs of the data."),
]
RunPath = Annotated[Path, typer.Argument(help="Folder written by `ellipslice fit`.", metavar="RUN")]


@contextmanager
def readable_errors(hint: str = "") -> Iterator[None]:
    """Print errors as one red line and exit.

    The exit code is 2 for a mistake of the user or a missing package, 1 for a failure of the machine such as a full
    disk, and 130 for Ctrl-C. Other exceptions are bugs and keep their traceback.

    Parameters
    ----------
    hint : str
        Command that continues. It is added after a failure of the machine and after Ctrl-C.
    """
    try:
        yield
    except KeyboardInterrupt:
        print_error("Interrupted.", hint)
        raise typer.Exit(code=EXIT_INTERRUPTED) from None
    except MemoryError as error:
        print_error(f"error: not enough memory. {error}", hint)
        raise typer.Exit(code=EXIT_FAILURE) from None
    except OSError as error:
        fault = error.errno in MACHINE_ERRORS
        print_error(f"error: {error}", hint if fault else "")
        raise typer.Exit(code=EXIT_FAILURE if fault else EXIT_USAGE) from None
    except (ValueError, TypeError, ImportError) as error:
        print_error(f"error: {error}")
        raise typer.Exit(code=EXIT_USAGE) from None


def print_error(message: str, hint: str = "") -> None:
    """Print `message` and `hint` in red as one line on the standard error stream."""
    line = " ".join(f"{message} {hint}".split())
    Console(stderr=True, soft_wrap=True).print(Text(line, style="red"))


@contextmanager
def readable_warnings(quiet: bool) -> Iterator[None]:
    """Print each distinct warning once, as a yellow line without file and line number; print none if `quiet`."""
    printed: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        line = " ".join(f"warning: {message}".split())
        interrupted = "stopped by Ctrl-C" in line  # the command prints its own line about the interrupt
        if not quiet and issubclass(category, UserWarning) and not interrupted and line not in printed:
            printed.add(line)
            Console(stderr=True, soft_wrap=True).print(Text(line, style="yellow"))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def shell_quote(path: Path) -> str:
    """Return a path, quoted for a shell."""
    return shlex.quote(str(path))


def run(folder: Any, *, draws: int | None = None, until: Any = None, at: Any = None, json_: bool, quiet: bool) -> None:
    """Start or resume a fit, write its predictions and plot, and print its summary."""
    hint = f"The draws so far are stored. To continue: ellipslice resume {shell_quote(folder.path)}"
    with readable_errors(hint), readable_warnings(quiet or json_):
        found = folder.run(draws=draws, until=until, progress=not quiet)
        if found.tree.attrs["stopped_by"] == "interrupt":
            print_error(f"Interrupted after {found.tree.attrs['draws']:,} draws per chain.", hint)
            raise typer.Exit(code=EXIT_INTERRUPTED)
        from ellipslice.apps.fits.predictions import write_predictions

        files = [write_predictions(folder, found, at), *write_plot(folder, found, json_ or quiet)]
        print_summary(folder, found, json_=json_, quiet=quiet)
        if not (json_ or quiet):
            typer.echo("")
            typer.echo("wrote  " + "  ".join(str(file) for file in files))
            typer.echo(f"next   ellipslice report {shell_quote(folder.path)}")


def write_plot(folder: Any, found: Any, quiet: bool) -> list[Path]:
    """Write plot.png and return its path in a list; if there is no plot, print why and return an empty list."""
    from ellipslice.apps.fits.plots import as_png
    from ellipslice.store.journal import replace

    reason = folder.kind.no_plot(folder)
    if reason:
        if not quiet:
            typer.echo(f"No plot is written: {reason}. See predictions.csv.", err=True)
        return []
    try:
        content = as_png(folder.kind.draw(folder, found, None))
    except ImportError as error:
        if not quiet:
            typer.echo(f"No plot is written: {error}", err=True)
        return []
    replace(folder.path / "plot.png", content)
    return [folder.path / "plot.png"]


def print_summary(folder: Any, found: Any, *, json_: bool, quiet: bool) -> None:
    """Print the summary of a fit on the standard output."""
    if quiet and not json_:
        return
    from ellipslice.apps.fits.summary import format_summary, summarise

    summary = summarise(folder, found)
    typer.echo(json.dumps(summary, indent=1, allow_nan=False) if json_ else format_summary(summary))

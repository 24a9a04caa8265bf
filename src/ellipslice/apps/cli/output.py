"""What commands print and write: errors in one red line, warnings in yellow ones, results; and exit codes."""

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

FAULTS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EMFILE, errno.ENOMEM}
"""What a machine does to users, who made no mistake."""

EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
"""Exit codes."""

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors; show no progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object in place of text, for scripts.")]
Delimiter = Annotated[
    str | None, typer.Option(help="Between columns of a CSV file; seen in its first line unless given.")
]
Decimal = Annotated[str, typer.Option(help="In numbers of a CSV file: a point, or a comma.")]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows without a value, also of the table of --predict-at.")
]
RunPath = Annotated[Path, typer.Argument(help="A folder that `ellipslice fit` made.", metavar="RUN")]


@contextmanager
def readable_errors(hint: str = "") -> Iterator[None]:
    """A user's mistake, or a missing package, is one red line and exit code 2; a full disk 1; a bug has its traceback.

    `hint` is added where a machine failed, or the user pressed Ctrl-C: how to go on.
    """
    try:
        yield
    except KeyboardInterrupt:
        print_error("stopped.", hint)
        raise typer.Exit(code=EXIT_INTERRUPTED) from None
    except MemoryError as error:
        print_error(f"error: there is not enough memory. {error}", hint)
        raise typer.Exit(code=EXIT_FAILURE) from None
    except OSError as error:
        fault = error.errno in FAULTS
        print_error(f"error: {error}", hint if fault else "")
        raise typer.Exit(code=EXIT_FAILURE if fault else EXIT_USAGE) from None
    except (ValueError, TypeError, ImportError) as error:
        print_error(f"error: {error}")
        raise typer.Exit(code=EXIT_USAGE) from None


def print_error(message: str, hint: str = "") -> None:
    """Print one line on the standard error stream, in red."""
    line = " ".join(f"{message} {hint}".split())
    Console(stderr=True, soft_wrap=True).print(Text(line, style="red"))


@contextmanager
def readable_warnings(quiet: bool) -> Iterator[None]:
    """Warnings as yellow lines, each once, without the place in our code; none if asked to be quiet."""
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        line = " ".join(f"warning: {message}".split())
        of_ctrl_c = "stopped by Ctrl-C" in line  # which the command says itself
        if not quiet and issubclass(category, UserWarning) and not of_ctrl_c and line not in said:
            said.add(line)
            Console(stderr=True, soft_wrap=True).print(Text(line, style="yellow"))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def shell_quote(path: Path) -> str:
    """Return a path as a shell takes it."""
    return shlex.quote(str(path))


def run(folder: Any, *, draws: int | None = None, until: Any = None, at: Any = None, json_: bool, quiet: bool) -> None:
    """Start or resume a fit, write its predictions and picture, and print its summary."""
    hint = f"What is drawn is kept: ellipslice resume {shell_quote(folder.path)}"
    with readable_errors(hint), readable_warnings(quiet or json_):
        found = folder.run(draws=draws, until=until, progress=not quiet)
        if found.tree.attrs["stopped_by"] == "interrupt":
            print_error(f"stopped after {found.tree.attrs['draws']:,} draws of each chain.", hint)
            raise typer.Exit(code=EXIT_INTERRUPTED)
        from ellipslice.apps.fits.predictions import write_predictions

        files = [write_predictions(folder, found, at), *write_picture(folder, found, json_ or quiet)]
        print_summary(folder, found, json_=json_, quiet=quiet)
        if not (json_ or quiet):
            typer.echo("")
            typer.echo("wrote  " + "  ".join(str(file) for file in files))
            typer.echo(f"next   ellipslice report {shell_quote(folder.path)}")


def write_picture(folder: Any, found: Any, quiet: bool) -> list[Path]:
    """Write the file plot.png, where it can be made; return its path in a list."""
    from ellipslice.apps.fits.picture import MOST_INPUTS, as_png, draw_fit
    from ellipslice.store.journal import replace

    if len(folder.asked.inputs) > MOST_INPUTS:
        return []
    try:
        content = as_png(draw_fit(folder, found))
    except ImportError as error:
        if not quiet:
            typer.echo(f"no picture: {error}", err=True)
        return []
    replace(folder.path / "plot.png", content)
    return [folder.path / "plot.png"]


def print_summary(folder: Any, found: Any, *, json_: bool, quiet: bool) -> None:
    """Print what the draws say, on the standard output."""
    if quiet and not json_:
        return
    from ellipslice.apps.fits.summary import as_text, summarise

    summary = summarise(folder, found)
    typer.echo(json.dumps(summary, indent=1, allow_nan=False) if json_ else as_text(summary))

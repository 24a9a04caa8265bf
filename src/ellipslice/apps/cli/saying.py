"""How commands speak: mistakes in one red line, warnings in yellow ones; and exit codes."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

FAULTS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EMFILE, errno.ENOMEM}
"""What a machine does to users, who made no mistake."""

FAULT, MISTAKE, STOPPED = 1, 2, 130
"""Exit codes."""

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors; show no progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object in place of text, for scripts.")]
Delimiter = Annotated[
    str | None, typer.Option(help="Between columns of a CSV file; seen in its first line unless given.")
]
Decimal = Annotated[str, typer.Option(help="In numbers of a CSV file: a point, or a comma.")]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows without a value, also of the table of --at.")
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
        complain("stopped.", hint)
        raise typer.Exit(code=STOPPED) from None
    except MemoryError as error:
        complain(f"error: there is not enough memory. {error}", hint)
        raise typer.Exit(code=FAULT) from None
    except OSError as error:
        fault = error.errno in FAULTS
        complain(f"error: {error}", hint if fault else "")
        raise typer.Exit(code=FAULT if fault else MISTAKE) from None
    except (ValueError, TypeError, ImportError) as error:
        complain(f"error: {error}")
        raise typer.Exit(code=MISTAKE) from None


def complain(message: str, hint: str = "") -> None:
    """One line on the standard error stream, in red."""
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


def quoted(path: Path) -> str:
    """As a shell takes it."""
    import shlex

    return shlex.quote(str(path))

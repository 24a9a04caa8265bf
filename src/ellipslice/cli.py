"""The command line: `ellipslice demo`, `explore`, `paper`, `bench` and `--version`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

ALL_PROBLEMS = "R01,R02,R03,R04,R05,R06,R07,R08,R09,R10,USPS,Mine"
ALL_METHODS = "elliptical,line,neal,control"

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Elliptical slice sampling (Murray, Adams & MacKay 2010).",
)


def main() -> None:
    """Entry point of the console script."""
    app(prog_name="ellipslice")


def show_version(wanted: bool) -> None:
    """Print the version and leave."""
    if wanted:
        typer.echo(f"ellipslice {version('ellipslice')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Options before a command."""


@app.command()
def demo(
    draws: Annotated[int, typer.Option(help="Draws kept, per chain.")] = 2000,
    warmup: Annotated[int, typer.Option(help="Updates discarded first, per chain.")] = 1000,
    thin: Annotated[int, typer.Option(help="Updates per draw kept.")] = 10,
    chains: Annotated[int, typer.Option(help="Independent chains.")] = 4,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bits.")] = 2010,
    out: Annotated[Path, typer.Option(help="Folder to write into; made if missing.", file_okay=False)] = Path("demo"),
) -> None:
    """Sample the paper's coal-mining posterior; write the draws and a picture."""
    with readable_errors():
        from ellipslice.demo import run

        run(draws=draws, warmup=warmup, thin=thin, chains=chains, seed=seed, out=out)


@app.command()
def explore(
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write; one among temporary files unless given.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open it, or only write it.")] = True,
) -> None:
    """Play with an update of elliptical slice sampling in the browser: one page, no network.

    To keep it, or to put it on a web site: ellipslice explore --out explore.html --no-browser
    """
    with readable_errors():
        from ellipslice.explore import show

        typer.echo(show(out, browser))


@app.command()
def paper(
    runs: Annotated[int, typer.Option(help="Runs of each method on each problem.")] = 100,
    iterations: Annotated[int, typer.Option(help="Kept of each run, after a tenth as many of burn-in.")] = 100_000,
    problems: Annotated[str, typer.Option(help="Some of R01 to R10, USPS and Mine, with commas.")] = ALL_PROBLEMS,
    methods: Annotated[str, typer.Option(help="Some of these, with commas; recentred and nuts too.")] = ALL_METHODS,
    seed: Annotated[int, typer.Option(help="The same seed gives the same results.")] = 2010,
    precision: Annotated[str, typer.Option(help="double; or single, for the elliptical method on a GPU.")] = "double",
    quick: Annotated[bool, typer.Option(help="A taste of two minutes: fewer problems, few and short runs.")] = False,
    out: Annotated[Path, typer.Option(help="Folder to write into; made if missing.", file_okay=False)] = Path("paper"),
) -> None:
    """Run the paper's experiments; write results, its Figures 3 to 6 and a report. Run it again to go on."""
    with readable_errors():
        from ellipslice.paper.experiment import run
        from ellipslice.paper.protocol import Protocol, cells, quick_cells

        if quick:
            runs, iterations = 4, 10_000
        wanted = quick_cells() if quick else cells(problems.split(","), methods.split(","))
        try:
            run(wanted, runs=runs, protocol=Protocol(iterations, seed, precision), out=out)
        except KeyboardInterrupt:
            typer.echo(f"stopped; finished runs are kept in {out}, and the same command goes on from there", err=True)
            raise typer.Exit(code=130) from None


@app.command()
def bench(
    problems: Annotated[
        str, typer.Option(help="Some of R01 to R10, Mine and USPS, with commas.")
    ] = "R01,R10,Mine,USPS",
    chains: Annotated[str, typer.Option(help="Numbers of chains, with commas.")] = "1,4",
    seconds: Annotated[float, typer.Option(help="About how long each timing lasts.")] = 1.0,
    rounds: Annotated[int, typer.Option(help="How often everything is timed, in turn.")] = 5,
    precision: Annotated[str, typer.Option(help="double, or single on a GPU.")] = "double",
    nuts: Annotated[bool, typer.Option(help="NumPyro's NUTS too, on CPUs; needs ellipslice[bench].")] = False,
    quick: Annotated[bool, typer.Option(help="A taste: R01 and Mine, short and few.")] = False,
    against: Annotated[
        Path | None, typer.Option(help="Earlier results: fail if a ratio has fallen far below.", exists=True)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A JSON file for the results; a picture goes beside it.", dir_okay=False)
    ] = None,
) -> None:
    """Time ellipslice beside BlackJAX, a hand-written NumPy loop and the floor, interleaved."""
    with readable_errors():
        from ellipslice.bench import run

        if quick:
            problems, chains, seconds, rounds = "R01,Mine", "1", 0.3, 3
        numbers = [int(number) for number in chains.split(",")]
        options = {"seconds": seconds, "rounds": rounds, "precision": precision}
        options |= {"nuts": nuts, "against": against, "out": out}
        run(problems.split(","), numbers, **options)


@contextmanager
def readable_errors() -> Iterator[None]:
    """A user's mistake, or a missing package, is one red line and exit code 2; a bug keeps its traceback."""
    try:
        yield
    except (ValueError, TypeError, OSError, ImportError) as error:
        message = " ".join(f"error: {error}".split())
        Console(stderr=True, soft_wrap=True).print(Text(message, style="red"))
        raise typer.Exit(code=2) from None

"""`ellipslice paper`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ellipslice.apps.cli.output import readable_errors

ALL_PROBLEMS = "R01,R02,R03,R04,R05,R06,R07,R08,R09,R10,USPS,Mine"
ALL_METHODS = "elliptical,line,neal,control"


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
        from ellipslice.apps.paper.experiment import run
        from ellipslice.apps.paper.protocol import Protocol, cells, quick_cells

        if quick:
            runs, iterations = 4, 10_000
        wanted = quick_cells() if quick else cells(problems.split(","), methods.split(","))
        try:
            run(wanted, runs=runs, protocol=Protocol(iterations, seed, precision), out=out)
        except KeyboardInterrupt:
            typer.echo(f"stopped; finished runs are kept in {out}, and the same command goes on from there", err=True)
            raise typer.Exit(code=130) from None

"""`ellipslice paper`: reproduce the paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ellipslice.apps.cli.output import EXIT_INTERRUPTED, readable_errors

ALL_PROBLEMS = "R01,R02,R03,R04,R05,R06,R07,R08,R09,R10,USPS,Mine"
ALL_METHODS = "elliptical,line,neal,control"


def paper(
    runs: Annotated[int, typer.Option(help="Number of runs of each method on each problem.")] = 100,
    iterations: Annotated[
        int, typer.Option(help="Iterations kept per run. A tenth as many are run first and discarded.")
    ] = 100_000,
    problems: Annotated[
        str, typer.Option(help="Problems, separated by commas: R01 to R10, USPS, Mine.")
    ] = ALL_PROBLEMS,
    methods: Annotated[
        str,
        typer.Option(
            help="Methods, separated by commas. The paper's four are the default; recentred and nuts are extra."
        ),
    ] = ALL_METHODS,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers. The same seed reproduces the results.")] = 2010,
    precision: Annotated[str, typer.Option(help="double; or single, only for the method elliptical.")] = "double",
    quick: Annotated[
        bool,
        typer.Option(
            help="Short version, about two minutes: 5 problems, 4 runs of 10,000 iterations. Overrides --runs, "
            "--iterations, --problems and --methods."
        ),
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Folder to write to. It is created if it does not exist.", file_okay=False)
    ] = Path("paper"),
) -> None:
    """Reproduce the experiments of Murray, Adams & MacKay (2010): write results, Figures 3 to 6 and a report.

    If interrupted, run the same command again to continue.
    """
    with readable_errors():
        from ellipslice.apps.paper.experiment import run
        from ellipslice.apps.paper.protocol import Protocol, cells, quick_cells

        if quick:
            runs, iterations = 4, 10_000
        selected = quick_cells() if quick else cells(problems.split(","), methods.split(","))
        try:
            run(selected, runs=runs, protocol=Protocol(iterations, seed, precision), out=out)
        except KeyboardInterrupt:
            typer.echo(f"Interrupted. Finished runs are in {out}. Run the same command again to continue.", err=True)
            raise typer.Exit(code=EXIT_INTERRUPTED) from None

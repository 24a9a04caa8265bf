"""`ellipslice bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ellipslice.apps.cli.output import readable_errors


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
        from ellipslice.apps.bench import run

        if quick:
            problems, chains, seconds, rounds = "R01,Mine", "1", 0.3, 3
        try:
            numbers = [int(number) for number in chains.split(",")]
        except ValueError:
            raise ValueError(
                f"--chains must be whole numbers with commas, such as 1,4, but it is {chains!r}."
            ) from None
        options = {"seconds": seconds, "rounds": rounds, "precision": precision}
        options |= {"nuts": nuts, "against": against, "out": out}
        run(problems.split(","), numbers, **options)

"""`ellipslice bench`: compare the speed with other samplers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ellipslice.apps.cli.output import readable_errors


def bench(
    problems: Annotated[
        str, typer.Option(help="Problems, separated by commas: R01 to R10, Mine, USPS.")
    ] = "R01,R10,Mine,USPS",
    chains: Annotated[str, typer.Option(help="Numbers of chains, separated by commas.")] = "1,4",
    seconds: Annotated[float, typer.Option(help="Approximate duration of one timing, in seconds.")] = 1.0,
    rounds: Annotated[int, typer.Option(help="Number of timings of each sampler. The samplers take turns.")] = 5,
    precision: Annotated[str, typer.Option(help="double; or single, only on a GPU.")] = "double",
    nuts: Annotated[
        bool,
        # Without the backslash, rich takes the extra for markup and drops it.
        typer.Option(help="Time NumPyro's NUTS as well (on a CPU only). Requires 'ellipslice\\[bench]'."),
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            help="Short run: R01 and Mine, one chain, 3 timings of 0.3 seconds. Overrides --problems, "
            "--chains, --seconds and --rounds."
        ),
    ] = False,
    against: Annotated[
        Path | None,
        typer.Option(
            help="JSON file of an earlier run. Fail if a speed ratio is below 0.6 times the earlier one. "
            "Default: no comparison.",
            exists=True,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="JSON file to write the results to. A plot is written next to it. Default: print only.", dir_okay=False
        ),
    ] = None,
) -> None:
    """Compare the speed of ellipslice with BlackJAX and a NumPy loop on the paper's problems.

    The samplers take turns, so that all run under the same conditions.
    The "floor" draws from the prior and does nothing else: a lower bound.
    Requires BlackJAX.

    \b
    ellipslice bench --quick
    ellipslice bench --problems USPS --chains 1,4 --out bench.json
    """  # noqa: D301  click reads the \b
    with readable_errors():
        from ellipslice.apps.bench import run

        if quick:
            problems, chains, seconds, rounds = "R01,Mine", "1", 0.3, 3
        try:
            counts = [int(number) for number in chains.split(",")]
        except ValueError:
            raise ValueError(
                f"--chains must be integers separated by commas, for example 1,4, but it is {chains!r}."
            ) from None
        options = {"seconds": seconds, "rounds": rounds, "precision": precision}
        options |= {"nuts": nuts, "against": against, "out": out}
        run(problems.split(","), counts, **options)

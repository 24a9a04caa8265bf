"""`ellipslice demo`: the coal-mining demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ellipslice.apps.cli.output import readable_errors


def demo(
    draws: Annotated[int, typer.Option(help="Number of draws to keep per chain.")] = 2000,
    warmup: Annotated[int, typer.Option(help="Number of warm-up updates per chain, which are discarded.")] = 1000,
    thin: Annotated[int, typer.Option(help="Number of updates per draw: keep every THIN-th update.")] = 10,
    chains: Annotated[int, typer.Option(help="Number of chains.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers. The same seed reproduces the draws.")] = 2010,
    out: Annotated[
        Path, typer.Option(help="Folder to write to. It is created if it does not exist.", file_okay=False)
    ] = Path("demo"),
) -> None:
    """Estimate the rate of coal-mining disasters from 1851 to 1962: the paper's log-Gaussian Cox process.

    Write the draws (coal_posterior.nc) and a plot (coal_intensity.png).
    """
    with readable_errors():
        from ellipslice.apps.demo import run

        run(draws=draws, warmup=warmup, thin=thin, chains=chains, seed=seed, out=out)

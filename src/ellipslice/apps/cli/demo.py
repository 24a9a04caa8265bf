"""`ellipslice demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ellipslice.apps.cli.output import readable_errors


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
        from ellipslice.apps.demo import run

        run(draws=draws, warmup=warmup, thin=thin, chains=chains, seed=seed, out=out)

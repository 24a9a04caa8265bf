"""`ellipslice bench`: compare the speed with other samplers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ellipslice.apps.cli.output import readable_errors

SPEED_OPTIONS = ("chains", "rounds", "precision", "nuts", "quick", "against")
"""Options of the comparison of updates per second, which the other two tables do not have."""

EFFECTIVE_OPTIONS = ("methods", "seeds", "first_seed", "processes", "join")
"""Options of the tables of effective samples per CPU second."""

EFFECTIVE_SECONDS, CHOICE_SECONDS = 20.0, 8.0
"""Default of --seconds with --effective and with --choice. CPU seconds of sampling in one measurement."""


def bench(
    context: typer.Context,
    effective: Annotated[
        bool,
        typer.Option(
            help="Compare effective samples per CPU second with the gradient methods of NumPyro and BlackJAX, on one "
            "core. A package that is not installed is left out."
        ),
    ] = False,
    choice: Annotated[
        bool,
        typer.Option(
            help='Compare the choice of reference="auto" with each of the moves among which it chooses, by effective '
            "samples per CPU second."
        ),
    ] = False,
    problems: Annotated[
        str | None,
        typer.Option(
            help="Problems, separated by commas: R01 to R10, Mine, USPS; with --effective or --choice also pines, "
            "T400, NB1600, volatility, heteroscedastic, binomial, probit, counts, sparse, tails. Default: "
            "R01,R10,Mine,USPS; with --effective pines,USPS,Mine,R10,R01; with --choice these and "
            "the others that are named here."
        ),
    ] = None,
    chains: Annotated[str, typer.Option(help="Numbers of chains, separated by commas.")] = "1,4",
    seconds: Annotated[
        float | None,
        typer.Option(
            help="Approximate duration of one timing, in seconds. Default: 1. With --effective and --choice: CPU "
            f"seconds of sampling in one measurement, default {EFFECTIVE_SECONDS:g} and {CHOICE_SECONDS:g}."
        ),
    ] = None,
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
    methods: Annotated[
        str | None,
        typer.Option(
            help="With --effective or --choice: methods, separated by commas: auto, ellipses, plain, NUTS-diagonal, "
            "NUTS-dense, NUTS-identity, mgrad, only-independent, only-ellipses, only-kicks. Default: the first seven; "
            "with --choice the last three and auto."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="With --effective or --choice: number of seeds.")] = 5,
    first_seed: Annotated[int, typer.Option(help="With --effective or --choice: first of consecutive seeds.")] = 1,
    processes: Annotated[
        int,
        typer.Option(
            help="With --effective or --choice: number of measurements in parallel, each pinned to its own core. On "
            "busy cores, or cores that share their caches, the times are longer."
        ),
    ] = 1,
    join: Annotated[
        list[Path] | None,
        typer.Option(
            help="With --effective or --choice: result of an earlier run. Give it several times to join results. "
            "Nothing is measured. Default: measure.",
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

    With --effective or --choice, the table has effective samples per CPU second instead of updates per second.

    \b
    ellipslice bench --quick
    ellipslice bench --problems USPS --chains 1,4 --out bench.json
    ellipslice bench --effective --problems R01 --seeds 1
    """  # noqa: D301  click reads the \b
    with readable_errors():
        check_options(context, effective, choice)
        if effective or choice:
            given = {"seeds": range(first_seed, first_seed + seeds), "processes": processes, "out": out}
            run_effective(problems, methods, join or [], seconds, choice, given)
            return
        from ellipslice.apps.bench import run

        problems, seconds = problems or "R01,R10,Mine,USPS", seconds or 1.0
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


def check_options(context: typer.Context, effective: bool, choice: bool) -> None:
    """Raise if an option is given that the table does not have."""
    if effective and choice:
        raise ValueError("--effective and --choice were both given. Leave one of them out.")
    unknown = SPEED_OPTIONS if effective or choice else EFFECTIVE_OPTIONS
    for name in unknown:
        source = context.get_parameter_source(name)
        if source is not None and not source.name.startswith("DEFAULT"):
            option = "--" + name.replace("_", "-")
            if effective or choice:
                raise ValueError(f"{option} was given with --{'effective' if effective else 'choice'}. Leave it out.")
            raise ValueError(f"{option} requires --effective or --choice. Add one of them, or leave it out.")


def run_effective(
    problems: str | None,
    methods: str | None,
    join: Sequence[Path],
    seconds: float | None,
    choice: bool,
    options: dict[str, Any],
) -> None:
    """Measure effective samples per CPU second, or join earlier results."""
    from ellipslice.apps.bench import effective
    from ellipslice.apps.bench.effective.methods import CHOICE_METHODS, EFFECTIVE_METHODS
    from ellipslice.apps.bench.effective.problems import CHOICE_PROBLEMS, EFFECTIVE_PROBLEMS

    if join:
        effective.join(join, options["out"])
        return
    effective.run(
        problems.split(",") if problems else CHOICE_PROBLEMS if choice else EFFECTIVE_PROBLEMS,
        methods.split(",") if methods else CHOICE_METHODS if choice else EFFECTIVE_METHODS,
        seconds=seconds or (CHOICE_SECONDS if choice else EFFECTIVE_SECONDS),
        **options,
    )

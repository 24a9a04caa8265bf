"""Writes docs/explanation/benchmarks.md from the results in benchmarks/results.

python benchmarks/comparison.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "explanation" / "benchmarks.md"

HEAD = """# Benchmarks

Measured, not claimed: every table names its command and machine, contestants took turns in one run, and numbers are
medians (with the range of the ratios). `python benchmarks/comparison.py` makes this page from `benchmarks/results`.

"Ours, own function" and "ours, batched" run any log-likelihood written with `jax.numpy`; "ready-made" ones are those of
`es.likelihoods`; "ours, fused" is the GPU kernel for sums over the values of f. The floors make the random numbers and
the matrix product behind an update's ν and nothing else: no sampler that draws ν in that way can be faster. On CPUs
"+ fast_cpu" is the same in a process that began with `es.fast_cpu()`.

Speed is not all: [who else does this, and what they do better](alternatives.md). Measured elsewhere: [strong
likelihoods](../how_to/slow_mixing.md), [unknown parameters beside NUTS](../how_to/hyperparameters.md#speed), [inside
BlackJAX's loops](../integrations/blackjax.md#speed), [truncated Gaussians beside BoTorch](../how_to/constraints.md#speed).
"""


def page() -> str:
    """The whole page."""
    results = {path.stem: json.loads(path.read_text(encoding="utf8")) for path in (HERE / "results").glob("*.json")}
    parts = [HEAD]
    for name in sorted(results):
        if results[name].keys() & {"settings", "sizes", "results"}:  # others have pages of their own
            parts.append(_part(results[name]))
    return "\n".join(parts)


def _part(result: dict[str, Any]) -> str:
    """What a file holds can be told from its keys."""
    if "settings" in result:
        return _whole_figure(result)
    return _scaling(result) if "sizes" in result else _timings(result)


def _timings(result: dict[str, Any]) -> str:
    machine, rows = result["machine"], result["results"]
    gpu = machine["device"] != "cpu"
    chains = sorted({row["chains"] for row in rows})
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    precision = rows[0].get("precision", "double")
    where = machine["device"] if gpu else f"{machine['cores']} CPU cores ({machine['processor']}, {_load(machine)})"
    flag = f", with `XLA_FLAGS={machine['xla_flags']}`" if machine.get("xla_flags") else ""
    command = f"ellipslice bench --problems {','.join(problems)} --chains {','.join(map(str, chains))}"
    command += f" --precision {precision}" if gpu else ""
    command += " --nuts" if any(row["contestant"].startswith("NUTS") for row in rows) else ""
    lines = [
        f"## {', '.join(problems)} on {where}{flag}, {precision} precision",
        "",
        f"`{command}`; JAX {machine['jax']}, BlackJAX {machine['blackjax']}. Updates per second over BlackJAX's"
        + (", and in millions:" if gpu else ":"),
        "",
        "| | " + " | ".join(f"{problem}, {_chains(count)}" for problem in problems for count in chains) + " |",
        "|---" * (1 + len(problems) * len(chains)) + "|",
    ]
    for contestant in dict.fromkeys(row["contestant"] for row in rows):
        cells = [_cell(rows, contestant, problem, count, gpu) for problem in problems for count in chains]
        lines.append(f"| {contestant} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *_effective(rows, problems), *_memory(rows, problems, chains)])


def _load(machine: dict[str, Any]) -> str:
    before = f"load {machine['load'][0]:.1f}"
    return f"{before} before, {machine['load_after'][0]:.1f} after" if "load_after" in machine else before


def _memory(rows: list[dict[str, Any]], problems: list[str], chains: list[int]) -> list[str]:
    """The most that each process used, where each contestant had its own."""
    told = {(row["contestant"], row["problem"], row["chains"]): row for row in rows if "peak_memory" in row}
    if not told:
        return []
    columns = [(problem, count) for problem in problems for count in chains]
    lines = [
        "Peak memory in MB: the most that a contestant's process used, less what it had before the contestant was",
        "made. The states of a timing are part of it, and there are more of them where updates are faster:",
        "",
        "| | " + " | ".join(f"{problem}, {_chains(count)}" for problem, count in columns) + " |",
        "|---" * (1 + len(columns)) + "|",
    ]
    for contestant in dict.fromkeys(contestant for contestant, _, _ in told):
        found = [told.get((contestant, *column)) for column in columns]
        cells = [f"{row['peak_memory'] / 1e6:,.0f}" if row else "" for row in found]
        lines.append(f"| {contestant} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _effective(rows: list[dict[str, Any]], problems: list[str]) -> list[str]:
    """Effective draws a second of one chain, beside the rival's: the only fair way to compare with NUTS."""
    told = {(row["contestant"], row["problem"]): row.get("effective_per_second") for row in rows if row["chains"] == 1}
    contestants = dict.fromkeys(contestant for (contestant, _), rate in told.items() if rate)
    if not contestants:
        return []
    lines = [
        "Effective draws of the log-likelihood per second (R-CODA's measure, one chain, one run of about a second, so",
        "good to a third or so on R10 and USPS) over BlackJAX's:",
        "",
        "| | " + " | ".join(problems) + " |",
        "|---" * (1 + len(problems)) + "|",
    ]
    for contestant in contestants:
        cells = [f"{told[contestant, problem] / told['blackjax', problem]:.2g}" for problem in problems]
        lines.append(f"| {contestant} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _cell(rows: list[dict[str, Any]], contestant: str, problem: str, chains: int, absolute: bool) -> str:
    for row in rows:
        if (row["contestant"], row["problem"], row["chains"]) == (contestant, problem, chains):
            low, high = row["ratio_range"]
            ratio = f"{row['ratio']:.3g}" if low == high else f"{row['ratio']:.3g} ({low:.3g} to {high:.3g})"
            return f"{ratio}; {row['updates_per_second'] / 1e6:.3g} M/s" if absolute else ratio
    return ""


def _chains(count: int) -> str:
    return "1 chain" if count == 1 else f"{count:,} chains"


def _whole_figure(result: dict[str, Any]) -> str:
    """The elliptical part of Figure 6, from the results of `ellipslice paper`."""
    settings, rows = result["settings"], result["results"]
    seconds = sum(row["runs"] * row["elapsed"]["mean"] for row in rows)
    told = (
        f"`ellipslice paper --methods elliptical --precision {settings['precision']}`: {len(rows)} problems, "
        f"{rows[0]['runs']} runs of {settings['burn_in']:,} + {settings['iterations']:,} updates each, on "
        f"{'; '.join(result['machines'])}. Compiling is counted; working out effective sample sizes is not. The "
        "authors' MATLAB took about 61 hours."
    )
    lines = [
        f"## The elliptical part of the paper's Figure 6: {seconds:.0f} seconds",
        "",
        told,
        "",
        "| problem | seconds | proposals per update | effective samples | the paper's | mean log-likelihood |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        effective, mean = row["effective"], row["mean_log_likelihood"]
        lines.append(
            f"| {row['problem']} | {row['runs'] * row['elapsed']['mean']:.1f} | {row['evaluations']['mean']:.3f} | "
            f"{effective['mean']:,.0f} ± {effective['standard_error']:,.0f} | {row['paper']['effective']:,.0f} | "
            f"{mean['mean']:.3f} ± {mean['standard_error']:.3f} |"
        )
    return "\n".join([*lines, ""])


def _scaling(result: dict[str, Any]) -> str:
    machine, command = result["machine"], "OPENBLAS_NUM_THREADS=1 python benchmarks/scaling.py"
    versions = f"JAX {machine['jax']}, BlackJAX {machine['blackjax']}"
    lines = [
        f"## What an update costs, on {machine['cores']} CPU cores ({_load(machine)})",
        "",
        f"`{command}`, which says what is measured; {versions}. Seconds on the clock over updates of all chains.",
        "",
        "![cost of an update against the number of values and of chains](../images/scaling.png)",
        "",
        *_costs(result["sizes"], "size", "N, one chain"),
        *_costs(result["chains"], "chains", "chains, R10"),
    ]
    return "\n".join(lines)


def _costs(rows: list[dict[str, Any]], against: str, label: str) -> list[str]:
    """A table of microseconds an update."""
    columns = sorted({row[against] for row in rows})
    lines = [
        f"| µs an update; {label}: | " + " | ".join(f"{column:,}" for column in columns) + " |",
        "|---" * (1 + len(columns)) + "|",
    ]
    for line in dict.fromkeys(row["line"] for row in rows):
        told = {row[against]: f"{row['microseconds']:,.1f}" for row in rows if row["line"] == line}
        lines.append(f"| {line} | " + " | ".join(told.get(column, "") for column in columns) + " |")
    return [*lines, ""]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf8")
    print(f"written: {PAGE.name}")

"""Write docs/explanation/benchmarks.md and its plot from the results in benchmarks/results.

python benchmarks/comparison.py
"""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from ellipslice.apps.bench.effective.tables import ALONE, Summary, choices, ratio, summaries, worst_choice
from ellipslice.apps.bench.plots import draw_effective

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "explanation" / "benchmarks.md"
PLOT = HERE.parent / "docs" / "images" / "effective_samples.png"

HEAD = """# Benchmarks

This page compares the speed of ellipslice with BlackJAX, NumPyro's NUTS and a NumPy loop. Every table names its command
and machine. The samplers took turns in one run. Numbers are medians, with the range of the ratios in brackets.
`python benchmarks/comparison.py` generates this page from `benchmarks/results`. Sections without a commit are from 16
November 2026, before results contained their commit and arguments. The code has changed since then.

| row | meaning |
|---|---|
| blackjax | BlackJAX's elliptical slice sampler; the other rows are ratios to it |
| ours, own function | `es.sample` on a CPU, with a log-likelihood written in `jax.numpy` |
| ours, ready-made | `es.sample` on a CPU, with a likelihood from `es.likelihoods` |
| ours, host | `es.sample` on a CPU, with a log-likelihood written in NumPy |
| ours, batched | all chains in one loop on a GPU, with a log-likelihood written in `jax.numpy` |
| ours, fused | the GPU kernel, for log-likelihoods that factorise over the elements of f; "ready-made" as above |
| NumPy loop | Figure 2 of the paper as a careful NumPy loop |
| floor | only the random numbers and the matrix product for ν: no sampler that draws ν in this manner can be faster |
| + fast_cpu | the same sampler in a process that first called `es.fast_cpu()` |

For the choice between libraries, see [alternatives and when to use them](alternatives.md). Other pages have more
measurements: [informative data](../how_to/slow_mixing.md), [unknown hyperparameters, compared with
NUTS](../how_to/hyperparameters.md#speed), [inside BlackJAX's loops](../integrations/blackjax.md) and [truncated
Gaussians, compared with BoTorch](../how_to/constraints.md#speed).
"""


def page() -> str:
    """Return the page."""
    results = {path.stem: json.loads(path.read_text(encoding="utf8")) for path in (HERE / "results").glob("*.json")}
    parts = [HEAD, _effective_samples(results["effective_samples"])]
    if "choice" in results:
        parts.append(_choice(results["choice"]))
    for name in sorted(results):
        if results[name].keys() & {"settings", "sizes", "results"}:  # other results are on other pages
            parts.append(_part(results[name]))
    return "\n".join(parts)


METHODS = {
    "auto": '`es.sample(likelihood, prior, reference="auto")`',
    "reference": '`es.sample(likelihood, prior, reference="auto")` without kicks',
    "ellipses": '`es.sample(likelihood, prior, reference="ep")`, without kicks',
    "plain": "`es.sample(likelihood, prior, move=EllipticalSlice())`, the paper's algorithm",
    "NUTS": "NumPyro's NUTS, whitened coordinates, 1,000 warm-up iterations",
    "NUTS-diagonal": "NumPyro's NUTS, whitened coordinates, 1,000 warm-up iterations, diagonal mass matrix",
    "NUTS-dense": "the same with a dense mass matrix",
    "NUTS-identity": "the same with the identity as mass matrix",
    "mgrad": "BlackJAX's `mgrad_gaussian`, tuned to an acceptance rate near 0.55",
}
"""Methods of `ellipslice bench --effective`, and those of earlier results, as the page describes them."""

EFFECTIVE_ORDER = ("pines", "USPS", "Mine", "R10", "R01")


def _effective_samples(result: dict[str, Any]) -> str:
    """Return the section on effective samples per CPU second, compared with gradient methods."""
    rows = result["effective_samples"]
    found = summaries(rows)
    names = {one.problem for one in found}
    problems = [name for name in EFFECTIVE_ORDER if name in names] + sorted(names - set(EFFECTIVE_ORDER))
    methods = [name for name in METHODS if any(one.method == name for one in found)]
    ours = methods[0]
    cells = {(one.problem, one.method): f"{one.rate:,.0f}" if one.converged else "not converged" for one in found}
    lines = [
        "## Effective samples per second, compared with gradient methods",
        "",
        *_origin(result, "--effective"),
        "Effective samples per CPU second of the worst element of f: four chains from long runs, medians over seeds.",
        "Compilation and preparation (fit, tuning, warm-up) are excluded. A method with an R-hat of at least 1.05, or",
        "an effective sample size below 100, has not converged and has no rate. Use this table for a choice of method,",
        "because updates of different methods differ in cost and in correlation. `benchmarks/README.md` describes how",
        "it is measured.",
        "",
        *_columns("", problems),
        *(_line(METHODS[method], [cells.get((name, method), "") for name in problems]) for method in methods),
        "",
        fill(f"{_fastest(found, problems)} Rate of {METHODS[ours]}, divided by those of the other methods:", 115),
        "",
        *_columns("", problems),
    ]
    for method in methods[1:]:
        factors = [ratio(found, name, method, ours) for name in problems]
        lines.append(_line(METHODS[method], ["" if one is None else _number(one) for one in factors]))
    return "\n".join([*lines, "", "![rates of all methods and seeds](../images/effective_samples.png)", ""])


def _columns(first: str, names: list[str]) -> list[str]:
    """Return the head of a table."""
    return [f"| {first} | " + " | ".join(names) + " |", "|---" * (1 + len(names)) + "|"]


def _line(first: str, cells: list[str]) -> str:
    return f"| {first} | " + " | ".join(cells) + " |"


def _origin(result: dict[str, Any], option: str) -> list[str]:
    """Return lines on the command, the machine and the commit of a result."""
    rows, machine, arguments = result["effective_samples"], result["machine"], result["arguments"]
    seeds = len({row["seed"] for row in rows})
    command = f"`ellipslice bench {option} --seeds {seeds}`"
    if not isinstance(arguments[0], dict):  # the results of an earlier script
        command = f"An earlier form of `ellipslice bench {option}`, {seeds} seeds"
    return [
        f"{command}, one core ({machine['processor']}),",
        f"JAX {machine['jax']}, double precision, commit {result['commit'][:7]}.",
    ]


def _fastest(found: Sequence[Summary], problems: list[str]) -> str:
    """Return a sentence on the fastest method on each problem."""
    by_method: dict[str, list[str]] = {}
    for name in problems:
        rates = {one.method: one.rate for one in found if one.problem == name and one.converged}
        if rates:
            by_method.setdefault(max(rates, key=lambda method: rates[method]), []).append(name)
    parts = [f"on {', '.join(names)}: {METHODS[method]}" for method, names in by_method.items()]
    return f"Fastest method {'; '.join(parts)}."


def _choice(result: dict[str, Any]) -> str:
    """Return the section on the choice of `reference="auto"`."""
    rows = result["effective_samples"]
    by_key = {(one.problem, one.method): one for one in summaries(rows)}
    found = choices(rows)
    lines = [
        "## The choice among independent draws, ellipses and kicks",
        "",
        *_origin(result, "--choice"),
        'Effective samples per CPU second of each move that `reference="auto"` can choose, and what it chose. "Best /',
        'chosen" is the rate of the best of the three moves divided by that of the run with `reference="auto"`. All',
        "four are measured separately, so the ratio may be below 1 by chance.",
        "",
        *_columns(
            "problem", ["independent", "ellipses", "kicks", "chosen (seeds)", "best / chosen, median", "largest"]
        ),
    ]
    for name in dict.fromkeys(one.problem for one in found):
        own = [one for one in found if one.problem == name]
        losses = [one.loss for one in own if one.loss is not None]
        summary = [by_key.get((name, method)) for method in ALONE]
        cells = ["" if one is None else f"{one.rate:,.0f}" if one.converged else "not converged" for one in summary]
        counts = Counter(one.chosen for one in own).most_common()
        ends = [statistics.median(losses), max(losses)] if losses else [math.inf, math.inf]
        shown = [f"{end:.2f}" if end < math.inf else "not converged" for end in ends]
        lines.append(_line(name, [*cells, ", ".join(f"{kind} ({count})" for kind, count in counts), *shown]))
    return "\n".join([*lines, "", worst_choice(found), ""])


def _part(result: dict[str, Any]) -> str:
    """Return the section for a file of results. Its keys determine the kind of section."""
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
    given = result.get("arguments", {})
    command += "".join(f" --{name} {given[name]:g}" for name in ("seconds", "rounds") if name in given)
    lines = [
        f"## {', '.join(problems)} on {where}{flag}, {precision} precision",
        "",
        f"`{command}`; JAX {machine['jax']}, BlackJAX {machine['blackjax']}{_commit(result)}. Updates per second, as a "
        "ratio to BlackJAX" + (", and in millions per second:" if gpu else ":"),
        "",
        "| | " + " | ".join(f"{problem}, {_chains(count)}" for problem in problems for count in chains) + " |",
        "|---" * (1 + len(problems) * len(chains)) + "|",
    ]
    for contestant in dict.fromkeys(row["contestant"] for row in rows):
        cells = [_cell(rows, contestant, problem, count, gpu) for problem in problems for count in chains]
        lines.append(f"| {contestant} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *_memory(rows, problems, chains)])


def _commit(result: dict[str, Any]) -> str:
    """Return the commit of a result, for the end of a sentence; nothing if the result has none."""
    return f", commit {result['commit'][:7]}" if result.get("commit") else ""


def _load(machine: dict[str, Any]) -> str:
    before = f"load {machine['load'][0]:.1f}"
    return f"{before} before, {machine['load_after'][0]:.1f} after" if "load_after" in machine else before


def _memory(rows: list[dict[str, Any]], problems: list[str], chains: list[int]) -> list[str]:
    """Return the table of peak memory, if each sampler had its own process."""
    found = {(row["contestant"], row["problem"], row["chains"]): row for row in rows if "peak_memory" in row}
    if not found:
        return []
    columns = [(problem, count) for problem in problems for count in chains]
    lines = [
        "Peak memory in MB of the sampler's process, minus its memory before the sampler was built. It includes the",
        "stored states of a timing. A faster sampler stores more of them:",
        "",
        "| | " + " | ".join(f"{problem}, {_chains(count)}" for problem, count in columns) + " |",
        "|---" * (1 + len(columns)) + "|",
    ]
    for contestant in dict.fromkeys(contestant for contestant, _, _ in found):
        own = [found.get((contestant, *column)) for column in columns]
        cells = [f"{row['peak_memory'] / 1e6:,.0f}" if row else "" for row in own]
        lines.append(f"| {contestant} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _cell(rows: list[dict[str, Any]], contestant: str, problem: str, chains: int, absolute: bool) -> str:
    for row in rows:
        if (row["contestant"], row["problem"], row["chains"]) == (contestant, problem, chains):
            low, high = row["ratio_range"]
            ratio = _number(row["ratio"])
            ratio += "" if low == high else f" ({_number(low)} to {_number(high)})"
            return f"{ratio}; {_number(row['updates_per_second'] / 1e6)} M/s" if absolute else ratio
    return ""


def _number(value: float) -> str:
    """Return a number with three digits, without an exponent."""
    return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _chains(count: int) -> str:
    return "1 chain" if count == 1 else f"{count:,} chains"


def _whole_figure(result: dict[str, Any]) -> str:
    """Return the section on the elliptical part of Figure 6, from the results of `ellipslice paper`."""
    settings, rows = result["settings"], result["results"]
    seconds = sum(row["runs"] * row["elapsed"]["mean"] for row in rows)
    text = (
        f"`ellipslice paper --methods elliptical --precision {settings['precision']}`: {len(rows)} problems, "
        f"{rows[0]['runs']} runs of {settings['burn_in']:,} + {settings['iterations']:,} updates each, on "
        f"{'; '.join(result['machines'])}{_commit(result)}. The time includes compilation, but not the "
        "estimation of effective sample sizes. The authors' MATLAB code took about 61 hours."
    )
    lines = [
        f"## The elliptical part of the paper's Figure 6 in {seconds:.0f} seconds",
        "",
        text,
        "",
        "| problem | seconds | proposals per update | effective sample size | paper | mean log-likelihood |",
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
    versions = f"JAX {machine['jax']}, BlackJAX {machine['blackjax']}{_commit(result)}"
    lines = [
        f"## Time per update against dimension and chains, on {machine['cores']} CPU cores ({_load(machine)})",
        "",
        f"`{command}`; {versions}. Wall-clock time divided by the number of updates of all chains.",
        "",
        "![time per update against the number of elements and of chains](../images/scaling.png)",
        "",
        *_costs(result["sizes"], "size", "N, one chain"),
        *_costs(result["chains"], "chains", "chains, R10"),
    ]
    return "\n".join(lines)


def _costs(rows: list[dict[str, Any]], against: str, label: str) -> list[str]:
    """Return a table of microseconds per update."""
    columns = sorted({row[against] for row in rows})
    lines = [
        f"| µs per update; {label}: | " + " | ".join(f"{column:,}" for column in columns) + " |",
        "|---" * (1 + len(columns)) + "|",
    ]
    for line in dict.fromkeys(row["line"] for row in rows):
        cells = {row[against]: f"{row['microseconds']:,.1f}" for row in rows if row["line"] == line}
        lines.append(f"| {line} | " + " | ".join(cells.get(column, "") for column in columns) + " |")
    return [*lines, ""]


if __name__ == "__main__":
    measured = json.loads((HERE / "results" / "effective_samples.json").read_text(encoding="utf8"))
    draw_effective(measured["effective_samples"], measured["machine"], PLOT)
    PAGE.write_text(page(), encoding="utf8")
    print(f"wrote {PAGE.name}")

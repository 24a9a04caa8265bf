"""Plots of the benchmarks: speed as a ratio to BlackJAX, and effective samples per CPU second."""

from __future__ import annotations

import statistics
from textwrap import fill
from typing import TYPE_CHECKING, Any

from ellipslice.apps.bench.samplers import FAST_CPU_SUFFIX
from ellipslice.apps.paper.figures.style import COLOURS, FAINT, GREY, INK, styled

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = list[dict[str, Any]]

PANEL_WIDTH, LINE_HEIGHT, PANEL_MARGIN = 2.35, 0.27, 0.75
"""Inches: width of a panel, height of the line of a sampler, space above and below a row of panels."""


def draw(results: Rows, machine: dict[str, Any], path: Path) -> None:
    """Plot the results of `bench.run` and write them to a file."""
    with styled():
        draw_timings(results, machine).savefig(path)


def draw_timings(results: Rows, machine: dict[str, Any]) -> Figure:
    """Return a figure with a column of panels per problem and a row per number of chains."""
    from matplotlib.figure import Figure

    problems = list(dict.fromkeys(row["problem"] for row in results))
    chains = list(dict.fromkeys(row["chains"] for row in results))
    listed = {count: _names(results, count) for count in chains}
    heights = [LINE_HEIGHT * len(listed[count]) + PANEL_MARGIN for count in chains]
    margin = 0.35 + 0.071 * max(len(name) for names in listed.values() for name in names)
    width, height = max(7.5, margin + PANEL_WIDTH * len(problems)), sum(heights) + 1.0
    figure = Figure(figsize=(width, height))
    grid = figure.add_gridspec(len(chains), len(problems), height_ratios=heights, wspace=0.08, hspace=0.32)
    figure.subplots_adjust(left=margin / width, right=0.985, top=1 - 0.95 / height, bottom=0.8 / height)
    for i, count in enumerate(chains):
        for j, problem in enumerate(problems):
            rows = [row for row in results if (row["problem"], row["chains"]) == (problem, count)]
            axes = figure.add_subplot(grid[i, j])
            _draw_panel(axes, rows, listed[count], _limits(results))
            axes.set_title(f"{problem}, {count:,} {'chain' if count == 1 else 'chains'}")
            if j:
                axes.set_yticklabels([])
    figure.text(0.02, 1 - 0.32 / height, "Updates per second, ratio to BlackJAX", fontsize=13, fontweight="bold")
    figure.text(0.02, 1 - 0.55 / height, _where(machine, results), fontsize=9, color=GREY)
    figure.text(0.02, 0.12 / height, fill(_note(results), int(14 * width)), fontsize=8, color=GREY, linespacing=1.4)
    return figure


def _note(results: Rows) -> str:
    sentences = ["Dots are medians of the timings, lines their range."]
    if any(row["contestant"].endswith(FAST_CPU_SUFFIX) for row in results):
        sentences.append("Hollow dots: with es.fast_cpu().")
    if any(row["contestant"].startswith("NUTS") for row in results):
        sentences.append(
            "One update of NUTS is one draw, which has a larger effective sample size than an update of the others."
        )
    return " ".join(sentences)


def _names(results: Rows, chains: int) -> list[str]:
    return list(dict.fromkeys(row["contestant"] for row in results if row["chains"] == chains))


def _limits(results: Rows) -> tuple[float, float]:
    """Return the limits of the x axis of all panels, with space for the numbers next to the dots."""
    ends = [end for row in results for end in row["ratio_range"]]
    return min(ends) / 1.6, max(ends) * 6


def _where(machine: dict[str, Any], results: Rows) -> str:
    gpu = machine["device"] != "cpu"
    where = machine["device"] if gpu else f"{machine['cores']} cores, {machine['processor']}"
    return f"{where}; {results[0]['precision']} precision; JAX {machine['jax']}, BlackJAX {machine['blackjax']}"


def _draw_panel(axes: Axes, rows: Rows, names: list[str], limits: tuple[float, float]) -> None:
    """Draw one line per sampler, the first at the top."""
    axes.axvline(1.0, color=GREY, linewidth=0.8, zorder=1)
    for row in rows:
        y, (low, high), colour = names.index(row["contestant"]), row["ratio_range"], _colour(row["contestant"])
        axes.plot([low, high], [y, y], color=colour, linewidth=2.2, solid_capstyle="round", alpha=0.45, zorder=2)
        face = "white" if row["contestant"].endswith(FAST_CPU_SUFFIX) else colour
        axes.plot(row["ratio"], y, "o", markersize=6, color=colour, markerfacecolor=face, zorder=3)
        label = f"{row['ratio']:,.0f}" if row["ratio"] >= 100 else f"{row['ratio']:.3g}"
        look = {"va": "center", "fontsize": 8, "color": INK, "bbox": {"facecolor": "white", "linewidth": 0, "pad": 0.6}}
        axes.annotate(label, (high, y), (7, 0), textcoords="offset points", **look)
    axes.set(xscale="log", xlim=limits, ylim=(len(names) - 0.4, -0.6))
    axes.set_yticks(range(len(names)), names, fontsize=9, color=INK)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.minorticks_off()
    axes.tick_params(axis="x", labelcolor=GREY, labelsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="both", color=FAINT, linewidth=0.5, alpha=0.7)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)


def _colour(sampler: str) -> str:
    if sampler.startswith("ours"):
        return COLOURS["elliptical"]
    if sampler.startswith("NUTS"):
        return COLOURS["nuts"]
    return FAINT if sampler.startswith("floor") else GREY


METHODS = {
    "auto": ('reference="auto"', COLOURS["elliptical"]),
    "reference": ('reference="auto"', COLOURS["elliptical"]),
    "ellipses": ("reference, no kicks", COLOURS["recentred"]),
    "plain": ("plain", COLOURS["neal"]),
    "only-independent": ("independent draws", COLOURS["neal"]),
    "only-ellipses": ("ellipses", COLOURS["recentred"]),
    "only-kicks": ("kicks", COLOURS["line"]),
    "NUTS": ("NUTS", COLOURS["nuts"]),
    "NUTS-diagonal": ("NUTS, diagonal mass", COLOURS["nuts"]),
    "NUTS-dense": ("NUTS, dense mass", "#8c3d00"),
    "NUTS-identity": ("NUTS, identity mass", "#f0a070"),
    "mgrad": ("mgrad_gaussian", COLOURS["control"]),
}
"""Label and colour of the methods of `bench.effective`, in the order of the plot."""


def draw_effective(rows: Rows, machine: dict[str, Any], path: Path) -> None:
    """Plot the results of `bench.effective` and write them to a file."""
    with styled():
        effective_figure(rows, machine).savefig(path)


def effective_figure(rows: Rows, machine: dict[str, Any]) -> Figure:
    """Return a figure with a group of columns per problem: a point per seed, and a line at the median of a method."""
    from matplotlib.figure import Figure

    problems = list(dict.fromkeys(row["problem"] for row in rows))
    methods = [name for name in METHODS if any(row["method"] == name for row in rows)]
    width = max(8.5, 1.4 + 0.14 * (len(methods) + 2) * len(problems))
    figure = Figure(figsize=(width, 4.8))
    axes = figure.add_axes((0.75 / width, 0.17, 1 - 0.95 / width, 0.56))
    for i, problem in enumerate(problems):
        for j, method in enumerate(methods):
            own = [row for row in rows if (row["problem"], row["method"]) == (problem, method)]
            _draw_seeds(axes, i + 0.8 * ((j + 0.5) / len(methods) - 0.5), 0.28 / len(methods), own)
    axes.set(yscale="log", xlim=(-0.5, len(problems) - 0.5))
    axes.set_xticks(range(len(problems)), problems, fontsize=10, color=INK)
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.tick_params(axis="y", which="both", labelcolor=GREY, labelsize=8.5, length=0)
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="y", color=FAINT, linewidth=0.5, alpha=0.7)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    for i in range(1, len(problems)):
        axes.axvline(i - 0.5, color=FAINT, linewidth=0.8)
    handles = [_legend_handle(method) for method in methods]
    figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0.55 / width, 0.875), ncols=min(4, len(methods)), fontsize=9,
        frameon=False, handletextpad=0.3, columnspacing=1.4,
    )  # fmt: skip
    where = f"One core, {machine['processor']}; double precision; JAX {machine['jax']}"
    figure.text(0.2 / width, 0.94, "Effective samples per CPU second", fontsize=13, fontweight="bold")
    figure.text(0.2 / width, 0.895, where, fontsize=9, color=GREY)
    figure.text(0.2 / width, 0.03, _effective_note(rows), fontsize=8, color=GREY)
    return figure


def _draw_seeds(axes: Axes, x: float, half: float, rows: Rows) -> None:
    """Draw a point for each seed, and a line at their median. Points of runs that have not converged are hollow."""
    rates = sorted(row["effective_sample_size"] / row["sampling_seconds"] for row in rows)
    for row in rows:
        colour, value = METHODS[row["method"]][1], row["effective_sample_size"] / row["sampling_seconds"]
        axes.plot(x, value, "o", markersize=4, color=colour, markerfacecolor=colour if row["converged"] else "white")
    if rows and all(row["converged"] for row in rows):
        colour = METHODS[rows[0]["method"]][1]
        axes.hlines(statistics.median(rates), x - half, x + half, color=colour, linewidth=2.2)


def _legend_handle(method: str) -> Any:
    from matplotlib.lines import Line2D

    label, colour = METHODS[method]
    return Line2D([], [], marker="o", linestyle="", markersize=5, color=colour, label=label)


def _effective_note(rows: Rows) -> str:
    note = "Worst element of f; compilation and preparation are excluded. Points are seeds, lines their medians."
    return note if all(row["converged"] for row in rows) else f"{note} Hollow: not converged."

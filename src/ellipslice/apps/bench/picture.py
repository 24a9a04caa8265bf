"""A picture of a benchmark: how many times the rival's speed each contestant makes."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

from ellipslice.apps.bench.contestants import FAST
from ellipslice.apps.paper.figures.style import COLOURS, FAINT, GREY, INK, styled

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = list[dict[str, Any]]

PANEL, LINE, EDGE = 2.35, 0.27, 0.75
"""Inches: the width of a panel, the height of a contestant, and what a row of panels has above and below."""


def draw(results: Rows, machine: dict[str, Any], path: Path) -> None:
    """Draw results, as `bench.run` has them, into a file."""
    with styled():
        draw_timings(results, machine).savefig(path)


def draw_timings(results: Rows, machine: dict[str, Any]) -> Figure:
    """A panel for each problem and number of chains; problems side by side."""
    from matplotlib.figure import Figure

    problems = list(dict.fromkeys(row["problem"] for row in results))
    chains = list(dict.fromkeys(row["chains"] for row in results))
    listed = {count: _names(results, count) for count in chains}
    heights = [LINE * len(listed[count]) + EDGE for count in chains]
    margin = 0.35 + 0.071 * max(len(name) for names in listed.values() for name in names)
    width, height = max(7.5, margin + PANEL * len(problems)), sum(heights) + 1.0
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
    figure.text(0.02, 1 - 0.32 / height, "Updates a second, times BlackJAX's", fontsize=13, fontweight="bold")
    figure.text(0.02, 1 - 0.55 / height, _where(machine, results), fontsize=9, color=GREY)
    figure.text(0.02, 0.12 / height, fill(_note(results), int(14 * width)), fontsize=8, color=GREY, linespacing=1.4)
    return figure


def _note(results: Rows) -> str:
    sentences = ["Dots are medians of the rounds, lines their range."]
    if any(row["contestant"].endswith(FAST) for row in results):
        sentences.append("Hollow: with es.fast_cpu().")
    if any(row["contestant"].startswith("NUTS") for row in results):
        sentences.append("An update of NUTS is a draw, and worth more than another's.")
    return " ".join(sentences)


def _names(results: Rows, chains: int) -> list[str]:
    return list(dict.fromkeys(row["contestant"] for row in results if row["chains"] == chains))


def _limits(results: Rows) -> tuple[float, float]:
    """The same for all panels, with room for the numbers beside the dots."""
    ends = [end for row in results for end in row["ratio_range"]]
    return min(ends) / 1.6, max(ends) * 6


def _where(machine: dict[str, Any], results: Rows) -> str:
    gpu = machine["device"] != "cpu"
    where = machine["device"] if gpu else f"{machine['cores']} cores, {machine['processor']}"
    return f"{where}; {results[0]['precision']} precision; JAX {machine['jax']}, BlackJAX {machine['blackjax']}"


def _draw_panel(axes: Axes, rows: Rows, names: list[str], limits: tuple[float, float]) -> None:
    """A line for each contestant, the first on top."""
    axes.axvline(1.0, color=GREY, linewidth=0.8, zorder=1)
    for row in rows:
        y, (low, high), colour = names.index(row["contestant"]), row["ratio_range"], _colour(row["contestant"])
        axes.plot([low, high], [y, y], color=colour, linewidth=2.2, solid_capstyle="round", alpha=0.45, zorder=2)
        face = "white" if row["contestant"].endswith(FAST) else colour
        axes.plot(row["ratio"], y, "o", markersize=6, color=colour, markerfacecolor=face, zorder=3)
        told = f"{row['ratio']:,.0f}" if row["ratio"] >= 100 else f"{row['ratio']:.3g}"
        look = {"va": "center", "fontsize": 8, "color": INK, "bbox": {"facecolor": "white", "linewidth": 0, "pad": 0.6}}
        axes.annotate(told, (high, y), (7, 0), textcoords="offset points", **look)
    axes.set(xscale="log", xlim=limits, ylim=(len(names) - 0.4, -0.6))
    axes.set_yticks(range(len(names)), names, fontsize=9, color=INK)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.minorticks_off()
    axes.tick_params(axis="x", labelcolor=GREY, labelsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="both", color=FAINT, linewidth=0.5, alpha=0.7)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)


def _colour(contestant: str) -> str:
    if contestant.startswith("ours"):
        return COLOURS["elliptical"]
    if contestant.startswith("NUTS"):
        return COLOURS["nuts"]
    return FAINT if contestant.startswith("floor") else GREY

"""Figure 6: effective sample sizes, processor times and evaluations, ours and the paper's; and the extra methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

from ellipslice.apps.paper.figures.style import COLOURS, GREY, INK, NAMES, bare
from ellipslice.apps.paper.methods import EXTRA_METHODS, METHODS
from ellipslice.apps.paper.problems import PROBLEMS
from ellipslice.apps.paper.protocol import Cell
from ellipslice.apps.paper.results import Estimate, Result, Results
from ellipslice.data import Published, published_figure6

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROUP_WIDTH = 0.87
"""Width of a group of bars. The distance of two groups is 1."""


NOTE = (
    "Error bars: standard deviations over runs (the paper has none for evaluations). Numbers under each group: "
    "elliptical slice sampling, ours in black and the paper's in grey, for 100,000 iterations kept after 10,000 of "
    "warm-up. R01 to R10 have other data than in the paper. A missing bar was not run."
)


class Row(NamedTuple):
    """A row of bars: one measure."""

    label: str
    ours: Callable[[Result], Estimate]
    theirs: Callable[[Published], tuple[float, float]]
    """Mean and standard deviation."""
    relative: bool
    """True if the bars are divided by that of elliptical slice sampling."""
    digits: int
    scale: str = "linear"


ROWS = (
    Row(
        "effective sample size\n(elliptical = 1)",
        lambda result: result.effective,
        lambda published: (published.effective, published.effective_deviation),
        True,
        0,
    ),
    Row(
        "processor time\n(elliptical = 1, log scale)",
        lambda result: result.seconds,
        lambda published: (published.seconds, published.seconds_deviation),
        True,
        1,
        "log",
    ),
    Row(
        "evaluations\nper iteration",
        lambda result: result.evaluations,
        lambda published: (published.evaluations, 0.0),
        False,
        2,
    ),
)


EXTRA_NOTE = (
    "For 100,000 iterations kept after 10,000 of warm-up, relative to elliptical slice sampling, on log scales. "
    "Time is processor time, including tuning and fitting before the run. A missing bar was not run, or is below 0.1."
)

EXTRA_ROWS = (
    ROWS[0]._replace(label="effective sample size\n(elliptical = 1, log scale)", scale="log"),
    Row(
        "effective samples\nper second\n(elliptical = 1, log scale)",
        lambda result: Estimate(result.effective.mean / result.seconds.mean, None, None),
        lambda published: (published.effective / published.seconds, 0.0),
        True,
        0,
        "log",
    ),
)


def figure6(results: Results) -> Figure | None:
    """Return Figure 6; None if elliptical slice sampling was not run."""
    return _rows(results, METHODS, ROWS, "Figure 6   Methods on the problems of the paper", NOTE)


def extra_methods(results: Results) -> Figure | None:
    """Return a figure that compares the methods of the paper with `EXTRA_METHODS`; None if none of these was run."""
    methods = [method for method in EXTRA_METHODS if any(cell.method == method for cell in results)]
    title = "Extra methods on the problems of the paper"
    return _rows(results, (*METHODS, *methods), EXTRA_ROWS, title, EXTRA_NOTE) if methods else None


def _rows(results: Results, methods: Sequence[str], rows: Sequence[Row], title: str, note: str) -> Figure | None:
    from matplotlib.figure import Figure

    problems = [name for name in PROBLEMS if Cell(name, "elliptical") in results]
    if not problems:
        return None
    figure = Figure(figsize=(max(7.0, 1.6 + 1.15 * len(problems)), 2.0 + 2.2 * len(rows)))
    height = figure.get_figheight()
    left = 0.95 / figure.get_figwidth()
    figure.subplots_adjust(left=left, right=0.99, top=1 - 0.86 / height, bottom=1.16 / height, hspace=0.42)
    for axes, row in zip(figure.subplots(len(rows), 1), rows, strict=True):
        draw_row(axes, row, problems, methods, results)
    figure.align_ylabels()
    draw_key(figure, left, methods, title)
    figure.text(
        left, 0.1 / height, fill(note, int(13 * figure.get_figwidth())), color=GREY, fontsize=8, linespacing=1.4
    )
    return figure


def draw_row(axes: Axes, row: Row, problems: Sequence[str], methods: Sequence[str], results: Results) -> None:
    """Draw groups of bars: for each method ours (filled) and then the paper's (hatched)."""
    published, width = published_figure6(), GROUP_WIDTH / (2 * len(methods))
    for position, name in enumerate(problems):
        unit = row.ours(results[Cell(name, "elliptical")]).mean
        their_unit = row.theirs(published[name, "elliptical"])[0]
        write_units(axes, position, f"{unit:,.{row.digits}f}", f"{their_unit:,.{row.digits}f}")
        for i, method in enumerate(methods):
            x = position + (2 * i - len(methods) + 0.5) * width
            if Cell(name, method) in results:
                ours = row.ours(results[Cell(name, method)])
                scale = 1 / unit if row.relative else 1.0
                draw_bar(axes, x, width, ours.mean * scale, (ours.deviation or 0.0) * scale, COLOURS[method], False)
            if (name, method) in published:
                mean, deviation = row.theirs(published[name, method])
                scale = 1 / their_unit if row.relative else 1.0
                draw_bar(axes, x + width, width, mean * scale, deviation * scale, COLOURS[method], True)
    axes.set_xticks(range(len(problems)), problems)
    axes.tick_params(axis="x", length=0)
    axes.set(xlim=(-0.55, len(problems) - 0.45), yscale=row.scale)
    axes.set_ylim(bottom=0.1 if row.scale == "log" else 0.0)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.set_ylabel(row.label)
    bare(axes)


def draw_bar(axes: Axes, x: float, width: float, height: float, deviation: float, colour: str, hatched: bool) -> None:
    """Draw a bar, with its error bar if there is one."""
    look = {"facecolor": "white", "hatch": "/////"} if hatched else {"facecolor": colour}
    axes.bar(x, height, width=0.88 * width, edgecolor=colour, linewidth=0.8, **look)  # pyright: ignore[reportArgumentType]
    if deviation:
        axes.errorbar(x, height, yerr=deviation, color=INK, linewidth=0.9, capsize=1.4, capthick=0.9)


def write_units(axes: Axes, position: int, ours: str, theirs: str) -> None:
    """Write the numbers of elliptical slice sampling under the name of a problem."""
    place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "ha": "center", "fontsize": 8.5}
    axes.annotate(ours, (position, 0), (0, -27), color=INK, **place)
    axes.annotate(theirs, (position, 0), (0, -38), color=GREY, **place)


def draw_key(figure: Figure, left: float, methods: Sequence[str], title: str) -> None:
    """Draw the title and the legend."""
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=COLOURS[method], label=NAMES[method]) for method in methods]
    handles.append(Patch(facecolor=GREY, label="ours"))
    handles.append(Patch(facecolor="white", edgecolor=GREY, hatch="/////", label="paper"))
    height = figure.get_figheight()
    figure.text(left, 1 - 0.3 / height, title, fontsize=13, fontweight="bold")
    columns = len(handles) if figure.get_figwidth() > 9 else 3
    figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(left - 0.01, 1 - 0.387 / height), ncols=columns, fontsize=9.5
    )

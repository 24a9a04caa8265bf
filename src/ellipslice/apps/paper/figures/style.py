"""Colours, names and settings that the figures share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, GREY, FAINT = "#1b1f24", "#5f6670", "#c9ced6"

COLOURS = {
    "elliptical": "#0072B2",
    "line": "#E69F00",
    "neal": "#009E73",
    "control": "#CC79A7",
    "recentred": "#56B4E9",
    "nuts": "#D55E00",
}
"""Colours of the methods, from the palette of Okabe and Ito, which colour-blind readers can distinguish."""

NAMES = {
    "elliptical": "Elliptical slice",
    "line": "Line slice",
    "neal": "Neal's M–H",
    "control": "Control variables",
    "recentred": "Elliptical slice, reference Gaussian",
    "nuts": "NUTS",
}


def styled() -> Any:
    """Return a context manager with the shared settings of matplotlib."""
    from matplotlib import rc_context

    return rc_context(
        {
            "font.family": "DejaVu Sans",
            "font.size": 10,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": FAINT,
            "axes.titlesize": 11,
            "axes.titlelocation": "left",
            "xtick.color": FAINT,
            "ytick.color": FAINT,
            "xtick.labelcolor": INK,
            "ytick.labelcolor": GREY,
            "legend.frameon": False,
            "savefig.dpi": 160,
            "figure.facecolor": "white",
        }
    )


def bare(axes: Axes) -> None:
    """Remove spines and ticks, and add a faint grid."""
    axes.spines[["left", "top", "right"]].set_visible(False)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)

"""Figure 3: one update of elliptical slice sampling, proposal by proposal, and the reverse move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ellipslice.apps.paper.figures.style import COLOURS, GREY, INK
from ellipslice.moves import EllipticalSlice

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# In this example three proposals are rejected, and the fourth is on the slice.
F, NU = np.array([1.25, 0.3]), np.array([-0.45, 0.85])
CENTRE, WIDTH = np.array([1.0, 0.62]), 0.55
"""The slice is the set of points within the distance WIDTH of CENTRE."""
UNIFORMS = (0.56, 0.743, 0.336, 0.58)
"""Uniform random numbers that determine the four angles."""


class Search(NamedTuple):
    """Angles tried by an update, and the bracket from which each was drawn."""

    angles: list[float]
    brackets: list[tuple[float, float]]


def search() -> Search:
    """Run `EllipticalSlice` on the example and return the angles and brackets."""
    move, angles, brackets = EllipticalSlice(), [], []
    uniforms = iter(UNIFORMS)
    theta, theta_min, theta_max = move.begin(0.0, 0.0, next(uniforms))
    while True:
        angles.append(theta)
        brackets.append((theta_min, theta_max))
        if on_slice(theta):
            return Search(angles, brackets)
        theta_min, theta_max = move.shrink(theta, theta_min, theta_max, 0.0)
        theta = move.propose(theta_min, theta_max, next(uniforms))


def at(theta: Any, radius: float = 1.0) -> np.ndarray:
    """Return points of the ellipse at angles `theta`, shape (2, ...)."""
    theta = np.asarray(theta)
    return radius * (np.multiply.outer(F, np.cos(theta)) + np.multiply.outer(NU, np.sin(theta)))


def on_slice(theta: Any) -> Any:
    """Return whether the point at angle `theta` is on the slice."""
    return np.hypot(*(at(theta).T - CENTRE).T) < WIDTH


def figure3() -> Figure:
    """Return Figure 3: panels (a) to (e), and a legend."""
    from matplotlib.figure import Figure

    found = search()
    figure = Figure(figsize=(9.6, 5.8))
    panels = figure.subplots(2, 3, gridspec_kw={"wspace": 0.04, "hspace": 0.12}).ravel()
    figure.subplots_adjust(left=0.02, right=0.98, top=0.9, bottom=0.03)
    titles = (
        "first proposal",
        "drawn from the full bracket",
        "bracket shrunk to the last one",
        "on the slice: accepted",
    )
    for k, (axes, title) in enumerate(zip(panels[:4], titles, strict=True)):
        draw_ellipse(axes, f"({'abcd'[k]}) {title}", None if k == 0 else found.brackets[k])
        draw_points(axes, here=0.0, tried=found.angles[: k + 1])
    there = found.angles[-1]
    draw_ellipse(panels[4], "(e) the reverse move, from f′ to f", found.brackets[-1])
    draw_points(panels[4], here=there, tried=[*found.angles[:-1], 0.0])
    draw_key(panels[5])
    figure.suptitle("Figure 3   One update of elliptical slice sampling", x=0.03, ha="left", fontweight="bold")
    return figure


def draw_ellipse(axes: Axes, title: str, bracket: tuple[float, float] | None) -> None:
    """Draw the ellipse, its part on the slice, and the bracket around it."""
    theta = np.linspace(0, 2 * np.pi, 1001)
    x, y = at(theta)
    axes.plot(x, y, color=GREY, linewidth=0.8, zorder=1)
    axes.plot(np.where(on_slice(theta), x, np.nan), y, color=COLOURS["elliptical"], alpha=0.35, linewidth=9, zorder=0)
    if bracket is not None:
        axes.plot(*at(np.linspace(*bracket, 500), radius=1.13), color=COLOURS["line"], linewidth=2.2)
        for end in bracket:
            axes.plot(*np.stack([at(end, 1.07), at(end, 1.19)]).T, color=COLOURS["line"], linewidth=2.2)
    axes.set(aspect="equal", xlim=(-1.75, 1.75), ylim=(-1.2, 1.2))
    axes.set_title(title, y=0.97)
    axes.set_axis_off()


def draw_points(axes: Axes, here: float, tried: list[float]) -> None:
    """Draw the current state, ν, the origin, the rejected proposals and the newest proposal."""
    axes.plot(0, 0, ".", color=INK, markersize=5)
    axes.plot(*at(here), "x", color=INK, markersize=9, markeredgewidth=2)
    axes.plot(*at(here + np.pi / 2), "+", color=INK, markersize=11, markeredgewidth=2)
    for theta in tried[:-1]:
        axes.plot(*at(theta), "o", color="white", markeredgecolor=GREY, markersize=7, markeredgewidth=1.3)
    axes.plot(*at(tried[-1]), "o", color=COLOURS["control"], markeredgecolor=INK, markersize=9)


def draw_key(axes: Axes) -> None:
    """Draw the legend."""
    marks: dict[str, dict[str, Any]] = {
        "current state f (in e: f′)": {"marker": "x", "color": INK, "markersize": 9, "markeredgewidth": 2},
        "auxiliary draw ν (in e: ν′)": {"marker": "+", "color": INK, "markersize": 11, "markeredgewidth": 2},
        "origin": {"marker": ".", "color": INK, "markersize": 5},
        "current proposal": {"marker": "o", "color": COLOURS["control"], "markeredgecolor": INK, "markersize": 9},
        "rejected proposal": {"marker": "o", "color": "white", "markeredgecolor": GREY, "markersize": 7},
    }
    for name, look in marks.items():
        axes.plot([], [], linestyle="none", label=name, **look)
    axes.plot([], [], color=COLOURS["elliptical"], alpha=0.35, linewidth=9, label="slice: likelihood above y")
    axes.plot([], [], color=COLOURS["line"], linewidth=2.2, label="bracket")
    axes.legend(loc="center left", labelspacing=0.9)
    axes.set_axis_off()

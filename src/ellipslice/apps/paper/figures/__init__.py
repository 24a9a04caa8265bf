"""The figures of the paper, drawn from our runs.

- `ellipse`: Figure 3
- `traces`: Figures 4 and 5
- `bars`: Figure 6
- `style`: shared colours and settings
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from ellipslice.apps.paper.figures.bars import extra_methods, figure6
from ellipslice.apps.paper.figures.ellipse import figure3
from ellipslice.apps.paper.figures.style import styled
from ellipslice.apps.paper.figures.traces import figure4, figure5
from ellipslice.apps.paper.protocol import RunOutcome
from ellipslice.apps.paper.results import Results

__all__ = ["can_draw", "draw_figures", "extra_methods", "figure3", "figure4", "figure5", "figure6"]


def can_draw() -> bool:
    """Return True if matplotlib is installed. Runs are often made on machines without it."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_figures(folder: Path, results: Results, outcomes: Sequence[RunOutcome]) -> list[str]:
    """Draw the figures for which there are runs, and return the names of the files."""
    with styled():
        figures = {
            "figure3.png": figure3(),
            "figure4.png": figure4(outcomes),
            "figure5.png": figure5(outcomes),
            "figure6.png": figure6(results),
            "beyond.png": extra_methods(results),
        }
        drawn = {name: figure for name, figure in figures.items() if figure is not None}
        for name, figure in drawn.items():
            figure.savefig(folder / name)
    return list(drawn)

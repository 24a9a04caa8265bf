"""The paper's figures, one file each; those that plot runs need the runs.

- `ellipse`: Figure 3
- `traces`: Figures 4 and 5
- `bars`: Figure 6
- `style`: what the figures share
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from ellipslice.apps.paper.figures.bars import beyond, figure6
from ellipslice.apps.paper.figures.ellipse import figure3
from ellipslice.apps.paper.figures.style import styled
from ellipslice.apps.paper.figures.traces import figure4, figure5
from ellipslice.apps.paper.protocol import RunOutcome
from ellipslice.apps.paper.results import Results

__all__ = ["beyond", "can_draw", "draw_figures", "figure3", "figure4", "figure5", "figure6"]


def can_draw() -> bool:
    """Whether there is a matplotlib: runs are often made where there is none."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_figures(folder: Path, results: Results, outcomes: Sequence[RunOutcome]) -> list[str]:
    """Draw what the runs suffice for; the names of the files."""
    with styled():
        figures = {
            "figure3.png": figure3(),
            "figure4.png": figure4(outcomes),
            "figure5.png": figure5(outcomes),
            "figure6.png": figure6(results),
            "beyond.png": beyond(results),
        }
        drawn = {name: figure for name, figure in figures.items() if figure is not None}
        for name, figure in drawn.items():
            figure.savefig(folder / name)
    return list(drawn)

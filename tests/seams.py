"""Where tests put another piece into the machinery: one function for each seam.

A plant goes through one of these where it can, so that a restructuring of the library changes this file and no plant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ellipslice import noise
from ellipslice.engines import host
from ellipslice.engines.compiled import chain


def replace_host_search(monkeypatch: pytest.MonkeyPatch, search: Callable[..., Any]) -> None:
    """Let moves on the host run another slice search: (move, nu, level, uniforms, state, log_likelihood)."""
    monkeypatch.setattr(host, "search", search)


def replace_draw_block(monkeypatch: pytest.MonkeyPatch, draw_block: Callable[..., Any]) -> None:
    """Draw the random numbers of a block of updates in another way: the arguments of `noise.draw_block`."""
    for module in (noise, host, chain):
        monkeypatch.setattr(module, "draw_block", draw_block)

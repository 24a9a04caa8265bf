"""Where tests put another piece into the machinery: one function for each seam.

A plant goes through one of these where it can, so that a restructuring of the library changes this file and no plant.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from ellipslice import noise
from ellipslice.engines.compiled import chain
from ellipslice.engines.host import engine as host_engine
from ellipslice.engines.host import search as host_search


def replace_host_search(monkeypatch: pytest.MonkeyPatch, search: Callable[..., Any]) -> None:
    """Let moves on the host run another slice search: (move, nu, level, uniforms, state, log_likelihood)."""
    monkeypatch.setattr(host_engine, "search", search)


def replace_draw_block(monkeypatch: pytest.MonkeyPatch, draw_block: Callable[..., Any]) -> None:
    """Draw the random numbers of a block of updates in another way: the arguments of `noise.draw_block`."""
    for module in (noise, host_search, chain):
        monkeypatch.setattr(module, "draw_block", draw_block)


def replace_judge(monkeypatch: pytest.MonkeyPatch, tell: Callable[..., Any]) -> None:
    """Let the host engine accept other points of those that a batch or workers evaluate: (judge, points, values)."""
    monkeypatch.setattr(host_search.Judge, "tell", tell)


def replace_drive(monkeypatch: pytest.MonkeyPatch, drive: Callable[..., Any]) -> None:
    """Drive runs in another way: the arguments of `sampling.drive.drive`."""
    for name in ("sample", "resume"):  # as names of the package these are functions
        monkeypatch.setattr(sys.modules[f"ellipslice.sampling.{name}"], "drive", drive)


def replace_starts(monkeypatch: pytest.MonkeyPatch, starts: Callable[..., Any]) -> None:
    """Let runs on the host begin at other checkpoints: a function of those that they are given."""
    run = host_engine.HostEngine.run
    monkeypatch.setattr(
        host_engine.HostEngine, "run", lambda self, spec, given, updates: run(self, spec, starts(given), updates)
    )

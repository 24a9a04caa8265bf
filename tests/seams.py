"""Functions by which tests replace a part of the library, one for each part.

Tests with injected bugs use these where they can. A restructuring of the library then changes this file, and not the
tests.
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
    """Replace the slice search of moves on the host by a function of (move, nu, level, uniforms, state, likelihood)."""
    monkeypatch.setattr(host_engine, "search", search)


def replace_draw_block(monkeypatch: pytest.MonkeyPatch, draw_block: Callable[..., Any]) -> None:
    """Replace `noise.draw_block`, which draws the random numbers of a block of updates, in all engines."""
    for module in (noise, host_search, chain):
        monkeypatch.setattr(module, "draw_block", draw_block)


def replace_process(monkeypatch: pytest.MonkeyPatch, process: Callable[..., Any]) -> None:
    """Replace `SliceSearch.process`, which accepts or rejects points that a batch or workers have evaluated."""
    monkeypatch.setattr(host_search.SliceSearch, "process", process)


def replace_drive(monkeypatch: pytest.MonkeyPatch, drive: Callable[..., Any]) -> None:
    """Replace `sampling.drive.drive` in `sample` and `resume`."""
    for name in ("sample", "resume"):  # as attributes of the package these names are functions, not modules
        monkeypatch.setattr(sys.modules[f"ellipslice.sampling.{name}"], "drive", drive)


def replace_starts(monkeypatch: pytest.MonkeyPatch, starts: Callable[..., Any]) -> None:
    """Let runs on the host start at the checkpoints `starts(given)` instead of the given ones."""
    run = host_engine.HostEngine.run
    monkeypatch.setattr(
        host_engine.HostEngine, "run", lambda self, spec, given, updates: run(self, spec, starts(given), updates)
    )

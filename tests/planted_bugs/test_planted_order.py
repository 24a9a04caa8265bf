"""Injected bugs in the order of random numbers: the golden bits detect them, on every machine.

Tests that compare runs with each other cannot detect them, because all runs change in the same manner.
"""

from __future__ import annotations

import numpy as np
import pytest

from ellipslice import noise
from ellipslice.engines.device import noise as device_noise
from ellipslice.moves import Cycle
from ellipslice.noise import DRAWN_UNIFORMS, Uniforms, UpdateNoise
from golden.check import check_noise, check_run
from golden.runs import run
from seams import replace_draw_block


def drawn_in_order(order):
    """Return `draw_block` with its four fields drawn in another order."""

    def draw_block(spec, seed, chain, block, length):
        rng, shape = noise.generator(seed, chain, 1 + block), (length, spec.searches)
        drawing = {
            "nu": lambda: spec.draw(rng, length),
            "level": lambda: rng.standard_exponential(shape),
            "first": lambda: rng.random((*shape, DRAWN_UNIFORMS)),
            "key": lambda: rng.integers(0, 2**32, (*shape, 2), dtype=np.uint32),
        }
        drawn = {name: drawing[name]() for name in order}
        return UpdateNoise(drawn["nu"], drawn["level"], Uniforms(drawn["first"], drawn["key"]))

    return draw_block


AS_IT_IS = ("nu", "level", "first", "key")
CHANGED = {
    "levels before nu": ("level", "nu", "first", "key"),
    "uniforms before levels": ("nu", "first", "level", "key"),
    "keys before uniforms": ("nu", "level", "key", "first"),
}


def plant(monkeypatch, order):
    replace_draw_block(monkeypatch, drawn_in_order(order))


@pytest.mark.parametrize("order", CHANGED)
def test_another_order_in_a_block_is_seen(order, monkeypatch):
    plant(monkeypatch, CHANGED[order])
    with pytest.raises(AssertionError, match="blocks: other random numbers"):
        check_noise()


@pytest.mark.parametrize("order", ["levels before nu", "uniforms before levels"])
@pytest.mark.parametrize(("move", "engine"), [("EllipticalSlice", "host"), ("ReferenceSlice", "host, vectorized")])
def test_another_order_is_seen_in_the_draws(move, engine, order, monkeypatch):
    """The decimals detect it, too, which are compared on other machines."""
    plant(monkeypatch, CHANGED[order])
    for to_the_bit in (True, False):
        with pytest.raises(AssertionError, match="other numbers"):
            check_run(f"{move} | Diagonal, 2 | {engine}", run(move, "Diagonal, 2", engine), to_the_bit=to_the_bit)


def test_another_order_is_seen_in_compiled_draws(monkeypatch):
    plant(monkeypatch, CHANGED["levels before nu"])
    with pytest.raises(AssertionError, match="other numbers"):
        check_run("NealMetropolis | Diagonal, 2 | compiled", run("NealMetropolis", "Diagonal, 2", "compiled"))


def test_chains_and_blocks_that_change_places_are_seen(monkeypatch):
    original = noise.generator
    monkeypatch.setattr(noise, "generator", lambda seed, *path: original(seed, *path[::-1]))
    with pytest.raises(AssertionError, match="other random numbers"):
        check_noise()
    with pytest.raises(AssertionError, match="other numbers"):
        check_run("EllipticalSlice | Dense, 2 | host", run("EllipticalSlice", "Dense, 2", "host"))


def test_parts_of_an_update_that_change_places_are_seen(monkeypatch):
    original = Cycle.step

    def step(self, noise, state, target):
        return original(self, UpdateNoise(*(field[::-1] for field in noise)), state, target)

    monkeypatch.setattr(Cycle, "step", step)
    with pytest.raises(AssertionError, match="other numbers"):
        check_run("Cycle of two | Dense, 2 | host", run("Cycle of two", "Dense, 2", "host"))


def test_other_keys_on_a_device_are_seen(monkeypatch):
    original = device_noise.chain_keys
    monkeypatch.setattr(device_noise, "chain_keys", lambda seed, chains: original(seed, chains)[::-1])
    with pytest.raises(AssertionError, match="chain_keys: other random numbers"):
        check_noise()


def test_as_it_stands_there_is_no_mistake(monkeypatch):
    plant(monkeypatch, AS_IT_IS)
    check_noise()
    check_run("EllipticalSlice | Dense, 2 | host", run("EllipticalSlice", "Dense, 2", "host"))

"""Injected bugs in the sampler: a row of the table of combinations detects each of them."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

import ellipslice as es
from combinations import combined
from combinations.combined import DEFAULTS, check
from combinations.refusals import REFUSALS
from ellipslice.engines import rows
from ellipslice.moves import EllipticalSlice, Local
from ellipslice.moves import local as local_module
from ellipslice.sampling.keep import StateSelector
from ellipslice.store.store import Store
from seams import replace_drive

sample_module = sys.modules["ellipslice.sampling.sample"]  # as an attribute of the package this name is a function
ROW = DEFAULTS | {"likelihood": "python float"}


def row(**options):
    return ROW | options


def test_without_a_mistake(tmp_path):
    assert check(row(store="resume", keep="a dict", initial="one for each", thin="3"), tmp_path) == "ran"


def test_all_chains_start_where_the_first_does(tmp_path, monkeypatch):
    given = sample_module.given_points
    monkeypatch.setattr(sample_module, "given_points", lambda *arguments: [given(*arguments)[0] for _ in arguments[2]])
    assert check(row(initial="one point"), tmp_path) == "ran"
    with pytest.raises(AssertionError):
        check(row(initial="one for each"), tmp_path)


def test_keep_is_a_draw_late(tmp_path, monkeypatch):
    now = StateSelector.__call__

    def late(self, f):
        return now(self, np.concatenate([f[..., :1, :], f[..., :-1, :]], axis=-2))

    monkeypatch.setattr(StateSelector, "__call__", late)
    with pytest.raises(AssertionError, match=r"is not of this draw|not the log-likelihood of its draw"):
        check(row(keep="a dict"), tmp_path)


def test_a_store_repeats_a_row(tmp_path, monkeypatch):
    write = Store.write

    def repeating(self, chains, first, latents, statistics):
        latents = {name: values[:, [0, *range(values.shape[1] - 1)]] for name, values in latents.items()}
        write(self, chains, first, latents, statistics)

    monkeypatch.setattr(Store, "write", repeating)
    with pytest.raises(AssertionError, match="is not of this draw"):
        check(row(store="store"), tmp_path)


def test_a_sweep_never_moves_the_sum_of_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(local_module, "check_reach", lambda *arguments: None)
    stuck = row(prior="random walk", move="Local", initial="one point")
    with pytest.raises(AssertionError, match="it must raise"):
        check(stuck, tmp_path)
    refusals = [refusal for refusal in REFUSALS if "never change" not in refusal.message]
    monkeypatch.setattr(combined, "REFUSALS", refusals)
    with pytest.raises(AssertionError, match=r"standard errors|constant|effective sample sizes"):
        check(stuck, tmp_path)


def test_draws_are_too_wide(tmp_path, monkeypatch):
    draw = es.Dense.draw_zero_mean
    monkeypatch.setattr(es.Dense, "draw_zero_mean", lambda self, rng, count: 1.5 * draw(self, rng, count))
    monkeypatch.setattr(combined, "HOST_DRAWS", combined.DRAWS)  # the number of draws of a compiled row
    with pytest.raises(AssertionError, match="standard errors"):
        check(row(), tmp_path)


def test_thinning_begins_an_update_early(tmp_path, monkeypatch):
    begin = rows.ChainRows.__init__

    def early(self, position, spec, start, again=False):
        begin(self, position, replace(spec, warmup=spec.warmup - (spec.thin > 1)), start, again)

    monkeypatch.setattr(rows.ChainRows, "__init__", early)
    with pytest.raises(AssertionError, match="not that of the plain run"):
        check(row(thin="3"), tmp_path)


def test_refused_by_accident(tmp_path, monkeypatch):
    def refuse(self, prior):
        raise TypeError("Local takes no Diagonal")

    monkeypatch.setattr(Local, "prepare", refuse)
    with pytest.raises(TypeError, match="takes no Diagonal"):
        check(row(prior="Diagonal", move="Local"), tmp_path)


def test_refused_after_the_chains_have_set_out(tmp_path, monkeypatch):
    def late(*arguments):
        raise TypeError("EllipticalSlice ignores the constraints")

    replace_drive(monkeypatch, late)
    monkeypatch.setattr(EllipticalSlice, "constrained", True, raising=False)
    with pytest.raises(AssertionError, match="after the chains started"):
        check(row(prior="TruncatedGaussian", move="EllipticalSlice"), tmp_path)


def test_an_error_that_is_not_the_library_s(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_module, "check_names", lambda *arguments: np.dtype("dims names 'f' and keep=False"))
    with pytest.raises(AssertionError, match="raised in"):
        check(row(dims="names", keep="none"), tmp_path)

"""Fits with a store: equal to fits in memory, resumed without pilot runs, opened, and rejected if they differ."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys

import numpy as np
import numpyro.distributions as dist
import pytest
from tinygp import kernels

import ellipslice as es
from ellipslice.gp import CoxProcess, LatentGP
from ellipslice.likelihoods import NegativeBinomial, Poisson
from ellipslice.parameters import choose_parametrisation
from stores import assert_same_stores

pytest.importorskip("zarr")

X = np.linspace(0.0, 3.0, 8)
Y = np.array([1, 0, 2, 3, 5, 4, 1, 2])
SHORT = {"draws": 20, "warmup": 5, "chains": 2, "seed": 3, "progress": False}
PRIORS = {"scale": dist.LogNormal(0.0, 0.5), "dispersion": dist.LogNormal(1.0, 0.5)}


pytestmark = pytest.mark.long  # each model with unknown hyperparameters takes ten seconds or more to compile


def unknown(priors=PRIORS, kernel=kernels.ExpSquared, mean=0.2):
    return LatentGP(lambda scale: kernel(scale), NegativeBinomial, mean=mean, parameters=priors)


MODEL = unknown()  # one model for several fits, so that it is compiled once


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Fits with unknown hyperparameters: one of twelve draws and one of twenty."""
    folder = tmp_path_factory.mktemp("fits")
    MODEL.fit(X, Y, **SHORT | {"draws": 12}, store=folder / "part.zarr")
    whole = MODEL.fit(X, Y, **SHORT, store=folder / "whole.zarr")
    return folder, whole


def test_unknown_parameters_are_in_the_store_by_name(made):
    _, whole = made
    in_memory = MODEL.fit(X, Y, **SHORT)
    for group in ("posterior", "sample_stats"):
        assert set(whole.tree[group].variables) == set(in_memory.tree[group].variables)
        for name, values in in_memory.tree[group].variables.items():
            np.testing.assert_array_equal(values.values, whole.tree[group].variables[name].values)
    times = ("sampling_time", "created_at")
    assert {k: v for k, v in in_memory.tree.attrs.items() if k not in times} == {
        k: v for k, v in whole.tree.attrs.items() if k not in times
    }
    assert set(whole.tree.posterior.data_vars) == {"scale", "dispersion", "f"}


def test_resumed_without_pilot_runs_it_is_the_same_to_the_bit(made, monkeypatch):
    folder, whole = made
    monkeypatch.setattr(choose_parametrisation, "choose_parametrisation", None)
    again = MODEL.resume(folder / "part.zarr", X, Y, draws=20, progress=False)
    assert_same_stores(folder / "part.zarr", folder / "whole.zarr")
    assert again.parameter_moves == whole.parameter_moves
    np.testing.assert_array_equal(again.predict([0.5]).latent, whole.predict([0.5]).latent)


FINGERPRINT = """
import numpy as np
import numpyro.distributions as dist
from tinygp import kernels
from ellipslice.gp import LatentGP
from ellipslice.gp.problem import problem_of
from ellipslice.likelihoods import Poisson
from ellipslice.store.serial import write

priors = {"scale": dist.LogNormal(0.3, 0.7), "amplitude": dist.HalfNormal(2.0), "level": dist.Normal(1.0, 3.0)}
kernel = lambda scale, amplitude: amplitude**2 * kernels.ExpSquared(scale)
model = LatentGP(kernel, Poisson, mean=lambda level: level, parameters=priors)
print(write(problem_of(model, np.array([0.0, 0.7, 3.1]), [1, 2, 3]).prior).fingerprint)
"""


def test_another_process_sees_the_same_model():
    """The fingerprint does not depend on the order of sets."""
    here = io.StringIO()
    with contextlib.redirect_stdout(here):
        exec(FINGERPRINT, {})
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", FINGERPRINT]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
        assert done.stdout == here.getvalue() != ""


def test_opened_it_runs_nothing(made, monkeypatch):
    folder, whole = made
    monkeypatch.setattr("ellipslice.gp.problem.sample", None)
    opened = unknown().open(folder / "whole.zarr", X, Y)
    assert opened.parameter_moves == whole.parameter_moves
    assert opened.tree.attrs["parameter_moves"] == whole.tree.attrs["parameter_moves"]
    np.testing.assert_array_equal(opened.predict([0.5]).expected, whole.predict([0.5]).expected)


@pytest.mark.parametrize(
    ("model", "x", "y", "says"),
    [
        (unknown(kernel=kernels.Matern32), X, Y, "one with other numbers in it was given"),
        (unknown(mean=0.3), X, Y, "one with other numbers in it was given"),
        (unknown(PRIORS | {"scale": dist.LogNormal(0.1, 0.5)}), X, Y, "one with other numbers in it was given"),
        (unknown(PRIORS | {"scale": dist.HalfNormal(1.0)}), X, Y, "one with other numbers in it was given"),
        (unknown(), X + 1e-9, Y, "one with other numbers in it was given"),
        (unknown(), X, Y + 1, "this log-likelihood is not the one"),
        (unknown(), X[:-1], Y[:-1], "other inputs"),
        (LatentGP(kernels.ExpSquared(1.0), Poisson, mean=0.2), X, Y, "the prior JointPrior"),
    ],
)  # fmt: skip
def test_another_model_is_refused(made, model, x, y, says):
    folder, _ = made
    with pytest.raises(ValueError, match=says):
        model.resume(folder / "whole.zarr", x, y, draws=30, progress=False)


def test_an_edited_move_is_refused(made, tmp_path):
    """The settings of the move are read from the store. Wrong ones raise a clear error."""
    import shutil

    from ellipslice.store.journal import read_checked, with_checksum

    shutil.copytree(made[0] / "whole.zarr", tmp_path / "run.zarr")
    path = tmp_path / "run.zarr/.ellipslice/setup"
    entries, _ = read_checked(path)
    leaves = entries["move"]["tree"]["leaves"]
    for edited in ([], leaves[:6], leaves[:-1], [*leaves[:6], *reversed(leaves[6:])], [None] * 20, "f" * 30):
        entries["move"]["tree"]["leaves"] = edited
        path.write_bytes(with_checksum(json.loads(json.dumps(entries))))
        with pytest.raises(ValueError, match=r"run\.zarr"):
            unknown().open(tmp_path / "run.zarr", X, Y)


def test_known_parameters(tmp_path):
    model = LatentGP(kernels.ExpSquared(1.0), Poisson, mean=0.5)
    fit = model.fit(X, Y, **SHORT)
    model.fit(X, Y, **SHORT | {"draws": 5}, store=tmp_path / "run.zarr")
    again = model.resume(tmp_path / "run.zarr", X, Y, draws=20, progress=False)
    np.testing.assert_array_equal(fit.tree.posterior.f, again.tree.posterior.f)
    np.testing.assert_array_equal(fit.tree.posterior.f, model.open(tmp_path / "run.zarr", X, Y).tree.posterior.f)
    with pytest.raises(ValueError, match="contains f, which is not a fit of LatentGP"):
        model.open(tmp_path / "run.zarr", X[:3], Y[:3])
    with pytest.raises(FileExistsError, match="holds a run already"):
        model.fit(X, Y, **SHORT, store=tmp_path / "run.zarr")
    other = LatentGP(kernels.ExpSquared(1.1), Poisson, mean=0.5)
    with pytest.raises(ValueError, match="one with other numbers in it was given"):
        other.resume(tmp_path / "run.zarr", X, Y)


@pytest.mark.parametrize("reference", [None, "ep"])
def test_known_parameters_on_a_machine_that_rounds_otherwise(reference, tmp_path):
    """Another processor computes another factor of the same covariance. The stored one is used, with a warning."""
    path, model = tmp_path / "run.zarr", LatentGP(kernels.Matern32(1.0), Poisson, mean=0.5)
    fit = model.fit(X, Y, **SHORT, reference=reference)
    model.fit(X, Y, **SHORT | {"draws": 5}, store=path, reference=reference)

    def dense(covariance, mean):  # the last bits change, and equal pivots have another order
        order = np.arange(len(covariance))[::-1]
        factor = np.linalg.cholesky(covariance[np.ix_(order, order)] * (1 + 2e-15))
        return es.Dense(factor=factor[order], mean=mean)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ellipslice.gp.structure.Dense", dense)
        with pytest.warns(UserWarning, match="that of the store up to rounding error"):
            again = model.resume(path, X, Y, draws=20, progress=False)
    np.testing.assert_array_equal(fit.tree.posterior.f, again.tree.posterior.f)


def test_a_path_that_is_taken_is_noticed_before_pilot_runs(made, monkeypatch):
    monkeypatch.setattr(choose_parametrisation, "choose_parametrisation", None)
    with pytest.raises(FileExistsError, match="holds a run already"):
        unknown().fit(X, Y, **SHORT, store=made[0] / "whole.zarr")
    with pytest.raises(ValueError, match="draws must be at least 1"):
        unknown().fit(X, Y, **SHORT | {"draws": 0})


def test_a_cox_process(tmp_path):
    events = es.data.coal_mining().years
    process = CoxProcess(kernels.ExpSquared(30.0), window=(1851, 1963), cells=20)
    fit = process.fit(events, **SHORT)
    process.fit(events, **SHORT | {"draws": 5}, store=tmp_path / "run.zarr")
    again = process.resume(tmp_path / "run.zarr", events, draws=20, progress=False)
    opened = process.open(tmp_path / "run.zarr", events)
    for one in (again, opened):
        np.testing.assert_array_equal(fit.predict([1900.0]).expected, one.predict([1900.0]).expected)


# --- files from untrusted sources -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda node: node.update(codecs=[{"name": "numcodecs.pickle"}]), "is encoded by .* does not write"),
        (lambda node: node.update(codecs=[{"name": "bytes"}, {"name": "pickle"}]), "is encoded by .* does not write"),
        (lambda node: node.update(codecs=None), "is encoded by .* does not write"),
        (lambda node: node.update(zarr_format=2), "which ellipslice does not write"),
        (lambda node: node.update(storage_transformers=[{"name": "x"}]), "has storage transformers"),
        (lambda node: node.update(shape=[1]), "damaged"),
    ],
)
def test_codecs_that_could_run_code_are_refused(tmp_path, edit, says):
    model = LatentGP(kernels.ExpSquared(1.0), Poisson)
    model.fit(X, Y, **SHORT, store=tmp_path / "run.zarr")
    path = tmp_path / "run.zarr/zarr.json"
    root = json.loads(path.read_bytes())
    edit(root["consolidated_metadata"]["metadata"]["posterior/f"])
    path.write_text(json.dumps(root))
    with pytest.raises(ValueError, match=says):
        model.open(tmp_path / "run.zarr", X, Y)


def test_a_name_outside_the_store_is_refused(tmp_path):
    model = LatentGP(kernels.ExpSquared(1.0), Poisson)
    model.fit(X, Y, **SHORT, store=tmp_path / "run.zarr")
    path = tmp_path / "run.zarr/zarr.json"
    root = json.loads(path.read_bytes())
    nodes = root["consolidated_metadata"]["metadata"]
    nodes["posterior/../../../secret"] = nodes["posterior/f"]
    path.write_text(json.dumps(root))
    with pytest.raises(ValueError, match="which ellipslice does not write"):
        model.open(tmp_path / "run.zarr", X, Y)

"""A run reports the fallbacks that it used. If a program cannot be read, the compiled engine is still used."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from ellipslice.approximations.fit import factorise_likelihood
from ellipslice.engines.compiled import scouts
from ellipslice.jax_settings import on_cpu
from ellipslice.posterior import Posterior
from ellipslice.programs import site_sums, traced
from ellipslice.programs.site_program import Elementwise
from ellipslice.undocumented import jaxprs, xla_loop

PRIOR = es.Dense(np.exp(-np.abs(np.subtract.outer(np.arange(8.0), np.arange(8.0)))))
Y = np.array([0.0, 1.0, 0.0, 3.0, 1.0, 2.0, 0.0, 1.0])
OPTIONS = {"draws": 10, "warmup": 0, "chains": 2, "seed": 1, "progress": False}


def own(f):
    return jnp.sum(Y * f - jnp.exp(f))


def run(log_likelihood=own, **options):
    return es.sample(log_likelihood, PRIOR, **({"move": es.moves.EllipticalSlice()} | OPTIONS | options))


@pytest.fixture(scope="module")
def usual():
    return run()


def raises(*arguments, **options):
    raise RuntimeError("a release to come")


def test_a_usual_run_says_nothing(usual):
    assert "degraded" not in usual.attrs
    assert "degraded" not in run(engine="host", draws=2).attrs


def test_versions_that_are_not_known_are_said_and_only_by_runs_that_would_gain(monkeypatch, usual, tmp_path):
    monkeypatch.setattr(xla_loop, "SMALL_CALL_SUPPORTED", ((0, 1), (0, 2)))
    tree = run(store=tmp_path / "run.zarr")
    assert tree.attrs["degraded"].startswith("loops as one function: JAX is ")
    np.testing.assert_allclose(tree.posterior.f, usual.posterior.f, rtol=1e-6)
    assert "degraded" not in run(engine="host", draws=2).attrs
    monkeypatch.undo()
    assert "degraded" not in run().attrs
    again = es.resume(tmp_path / "run.zarr", own, draws=12, progress=False)
    assert again.attrs["degraded"] == tree.attrs["degraded"]  # some of its draws used the fallback


BROKEN = {
    "reading a sum": (site_sums._Reader, "read", "reading programs: a log-likelihood could not be read as a sum"),
    "running a sum": (Elementwise, "parts", "vectorised sums: a log-likelihood could not be read"),
    "names": (jaxprs, "called_name", "reading programs: a log-likelihood could not be read as a sum"),
    "taking apart": (
        jaxprs,
        "has_hidden_data",
        "reading programs: the data of a log-likelihood could not be separated",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_goes_wrong_while_programs_are_read_costs_neither_engine_nor_answer(monkeypatch, usual, what):
    owner, name, said = BROKEN[what]
    monkeypatch.setattr(owner, name, raises)
    function = own if what != "names" else lambda f: jnp.sum(Y * f) - jnp.sum(jnp.logaddexp(0.0, f) * 3.0)
    tree = run(function)
    assert tree.attrs["engine"] == "compiled"
    assert tree.attrs["engine_reason"] == "JAX can trace the log-likelihood"
    assert said in tree.attrs["degraded"]
    assert "a release to come" in tree.attrs["degraded"]
    if function is own:
        np.testing.assert_allclose(tree.posterior.f, usual.posterior.f, rtol=1e-6)


def test_without_derivatives_there_are_no_planes_and_the_chain_is_the_same(monkeypatch):
    likelihood = es.likelihoods.Poisson(Y)
    usual = run(likelihood)
    monkeypatch.setattr(scouts, "value_and_derivatives", raises)
    tree = run(likelihood)
    assert "tangent planes: the log-likelihood could not be differentiated" in tree.attrs["degraded"]
    np.testing.assert_array_equal(tree.posterior.f, usual.posterior.f)


def test_a_reference_says_why_it_cannot_read_a_sum(monkeypatch):
    with on_cpu():
        assert not isinstance(factorise_likelihood(Posterior(PRIOR, own)), str)
        monkeypatch.setattr(site_sums._Reader, "read", raises)
        assert "could not be read (RuntimeError: a release to come)" in str(factorise_likelihood(Posterior(PRIOR, own)))


def test_an_error_of_the_users_stays_the_users():
    def wrong(f):
        return float(f[0])

    tree = run(wrong, draws=2)
    assert tree.attrs["engine"] == "host"
    assert "JAX cannot trace the log-likelihood" in tree.attrs["engine_reason"]
    assert "degraded" not in tree.attrs


def test_where_nothing_is_known_one_thread_evaluates_one_by_one(monkeypatch):
    monkeypatch.setattr(jaxprs, "core", lambda: "it is gone")
    with on_cpu():
        likelihood = traced.compilable(Posterior(PRIOR, own).log_likelihood, 8)
        assert isinstance(likelihood, traced.UnreadLikelihood)
        for one in (likelihood, es.likelihoods.Poisson(Y)):
            assert traced.program_properties(one, 8).operations is None
            assert traced.program_properties(one, 8).threads == 1
        values = traced.over_many(likelihood)(jnp.asarray([Y, 0 * Y]))
        np.testing.assert_allclose(values, [own(Y), own(0 * Y)])

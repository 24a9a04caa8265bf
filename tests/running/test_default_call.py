"""`sample(log_likelihood, prior)`: the method and the length are chosen, and the run ends when it has converged."""

from __future__ import annotations

import _thread
import re
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from ellipslice.approximations import fit
from ellipslice.approximations.fit import factorise_likelihood
from ellipslice.sampling import automatic_length, automatic_move, forecast
from stores import assert_same_stores

PRIOR = es.Diagonal(np.ones(6))
OPTIONS = {"seed": 1, "progress": False}


def informative(f):
    """Return a log-likelihood on the host that needs more than 1,000 updates of plain ellipses."""
    return float(-200.0 * np.square(np.asarray(f) - 2.0).sum())


def coupled(f):
    """Return a log-likelihood that JAX compiles and that does not factorise."""
    return -200.0 * (f.sum() - 1.0) ** 2 - jnp.sum(f[1:] * f[:-1]) ** 2


def wild(f):
    """Return a log-likelihood with which plain ellipses do not converge."""
    return float(-1e4 * np.square(np.asarray(f) - 3.0).sum())


def explicit(log_likelihood, prior, tree, **options):
    """Return a run with the move, warm-up and thinning that a default call has chosen."""
    length = {"draws": 1000, "warmup": tree.attrs["warmup"], "thin": tree.attrs["thin"]}
    return es.sample(log_likelihood, prior, move=es.moves.EllipticalSlice(), **length, **OPTIONS, **options)


# --- length ---------------------------------------------------------------------------------------------------------


def test_the_run_ends_when_it_has_converged():
    tree = es.sample(informative, PRIOR, **OPTIONS)
    assert tree.attrs["stopped_by"] == "converged"
    assert tree.posterior.sizes["draw"] == 1000
    assert tree.attrs["thin"] > 1
    report = es.diagnostics.check_convergence(tree)
    assert report.converged
    assert report.effective_sample_size == tree.attrs["effective_sample_size"]
    assert report.rhat == tree.attrs["rhat"]
    assert tree.attrs["stopping_rule"] == "until converged, thin at most 64"


def test_the_result_is_that_of_a_run_of_this_length():
    tree = es.sample(informative, PRIOR, **OPTIONS)
    assert tree.attrs["warmup"] == 500 + 200 * (tree.attrs["thin"] - 1)
    same = explicit(informative, PRIOR, tree)
    np.testing.assert_array_equal(tree.posterior.f, same.posterior.f)
    for name in tree.sample_stats:
        np.testing.assert_array_equal(tree.sample_stats[name], same.sample_stats[name])
    for name in ("updates", "evaluations", "proposals", "draws"):
        assert tree.attrs[name] == same.attrs[name]


def test_tangent_planes_do_not_change_the_length():
    """Such chains continue from one update before the last."""
    data = es.likelihoods.Poisson(np.array([90, 0, 40]))
    tree, plain = (
        es.sample(data, es.Diagonal(np.full(3, 9.0)), look_ahead=look_ahead, **OPTIONS) for look_ahead in (1, None)
    )
    assert tree.attrs["thin"] > 1
    same = es.sample(
        data,
        es.Diagonal(np.full(3, 9.0)),
        move=es.moves.EllipticalSlice(),
        draws=1000,
        **{name: tree.attrs[name] for name in ("warmup", "thin")},
        **OPTIONS,
    )
    np.testing.assert_array_equal(tree.posterior.f, same.posterior.f)
    assert plain.attrs["move"].startswith("ReferenceSlice(")


def test_thinning_of_the_user_is_the_first_one():
    tree = es.sample(informative, PRIOR, thin=3, warmup=10, **OPTIONS)
    factor = tree.attrs["thin"] // 3
    assert tree.attrs["thin"] == 3 * factor
    assert tree.attrs["warmup"] == 10 + 600 * (factor - 1)
    np.testing.assert_array_equal(tree.posterior.f, explicit(informative, PRIOR, tree).posterior.f)


def test_a_run_that_does_not_converge_spends_its_budget_and_warns(monkeypatch):
    monkeypatch.setattr(automatic_length, "MAX_THINNING", 2)
    message = (
        r"has not converged after 2,700 updates.*effective sample size of .* must be at least 400.*reference='auto'"
    )
    with pytest.warns(UserWarning, match=message):
        tree = es.sample(wild, es.Diagonal(np.ones(60)), **OPTIONS)
    assert tree.attrs["stopped_by"] == "budget"
    assert tree.posterior.sizes["draw"] == 1000
    assert tree.attrs["updates"] == 4 * 2700
    assert not es.diagnostics.check_convergence(tree).converged


@pytest.mark.parametrize("option", [{"draws": 30}, {"until": es.Until(max_draws=30)}, {"chains": [2, 5]}])
def test_a_given_length_is_kept(option):
    tree = es.sample(informative, PRIOR, **option, **OPTIONS)
    assert tree.posterior.sizes["draw"] == (1000 if "chains" in option else 30)
    assert tree.attrs["stopped_by"] == "draws"
    assert (tree.attrs["warmup"], tree.attrs["thin"]) == (500, 1)


def test_the_number_of_draws_does_not_change_the_method():
    tree = es.sample(coupled, PRIOR, **OPTIONS)
    short = es.sample(coupled, PRIOR, draws=20, **OPTIONS)
    assert short.attrs["move"] == tree.attrs["move"]
    assert short.attrs["move_reason"] == tree.attrs["move_reason"]


def test_nothing_to_check_gives_a_fixed_length():
    constrained = es.TruncatedGaussian(es.Diagonal(np.ones(2)), A=-np.eye(2), b=np.zeros(2))
    tree = es.sample(None, constrained, keep=False, **OPTIONS)
    assert (tree.attrs["stopped_by"], tree.attrs["draws"]) == ("draws", 1000)
    tree = es.sample(None, constrained, **OPTIONS)
    assert tree.attrs["stopped_by"] == "converged"


def test_one_chain_has_no_rhat():
    tree = es.sample(informative, PRIOR, chains=1, **OPTIONS)
    assert tree.attrs["stopped_by"] == "converged"
    assert "rhat" not in tree.attrs
    assert tree.attrs["effective_sample_size"] >= 100


def test_only_what_is_kept_is_checked():
    tree = es.sample(informative, PRIOR, keep=lambda f: {"total_log_likelihood": f[0]}, **OPTIONS)
    assert es.diagnostics.check_convergence(tree).converged
    np.testing.assert_array_equal(
        tree.posterior.total_log_likelihood, explicit(informative, PRIOR, tree).posterior.f[..., 0]
    )


def test_ctrl_c_returns_the_draws_so_far():
    calls = 0

    def interrupting(f):
        nonlocal calls
        calls += 1
        if calls == 60_000:  # after the first convergence check
            _thread.interrupt_main()
        return informative(f)

    with pytest.warns(UserWarning, match=r"stopped by Ctrl-C: returning \d+ of 1,000 draws per chain"):
        tree = es.sample(interrupting, PRIOR, **OPTIONS)
    assert tree.attrs["thin"] == 2
    draws = tree.posterior.sizes["draw"]
    assert 400 <= draws < 1000
    np.testing.assert_array_equal(tree.posterior.f, explicit(informative, PRIOR, tree).posterior.f[:, :draws])


def test_a_slow_run_gets_a_forecast(monkeypatch, capsys):
    monkeypatch.setattr(forecast, "AFTER_SECONDS", 0.05)
    monkeypatch.setattr(forecast, "MIN_SECONDS", 0.05)
    es.sample(informative, PRIOR, seed=1)
    found = capsys.readouterr().err
    assert found.count("the first convergence check will be after about") == 1
    assert "the run ends after at most" in found
    es.sample(informative, PRIOR, **OPTIONS)
    es.sample(informative, PRIOR, seed=1, draws=2000)
    assert capsys.readouterr().err == ""


def test_slow_pilot_runs_get_a_forecast(monkeypatch, capsys):
    monkeypatch.setattr(forecast, "MIN_SECONDS", 1e-9)
    monkeypatch.setattr(automatic_move, "ENOUGH_EFFECTIVE_SAMPLES", 0)
    es.sample(coupled, PRIOR, seed=1, draws=20)
    found = capsys.readouterr().err
    assert found.count("pilot runs, which choose how to sample, may take about") == 1
    assert "move=es.moves.EllipticalSlice()" in found
    es.sample(coupled, PRIOR, draws=20, **OPTIONS)  # without progress
    es.sample(es.likelihoods.Poisson(np.ones(6)), PRIOR, seed=1, draws=20)  # its reference needs no pilot run
    assert capsys.readouterr().err == ""


def test_a_forecast_of_pilot_runs_is_their_time(monkeypatch, capsys):
    class Slow:
        traced = False

        def evaluate(self, f):
            time.sleep(0.02)

    forecast.forecast_pilot_runs(Slow(), np.zeros(3), updates=1000, chains=4, instead="Do this.")
    assert re.search(r"may take about 4(\.\d)? minutes. Do this.", capsys.readouterr().err)
    forecast.forecast_pilot_runs(Slow(), np.zeros(3), updates=10, chains=4, instead="Do this.")
    assert capsys.readouterr().err == ""


def test_durations_in_words():
    found = [forecast._duration(seconds) for seconds in (61, 120, 7000, 200_000)]
    assert found == ["61 seconds", "2 minutes", "1.9 hours", "2.3 days"]


# --- store ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def whole(tmp_path):
    """The store of a run that was not interrupted."""
    pytest.importorskip("zarr")
    path = tmp_path / "whole.zarr"
    tree = es.sample(informative, PRIOR, store=path, **OPTIONS)
    np.testing.assert_array_equal(tree.posterior.f, explicit(informative, PRIOR, tree).posterior.f)
    return path


@pytest.mark.parametrize("calls_before", [3_000, 30_000, 60_000])
def test_a_killed_run_is_resumed_to_the_same_store(tmp_path, whole, calls_before):
    calls = 0

    def failing(f):
        nonlocal calls
        calls += 1
        if calls == calls_before:
            raise RuntimeError("killed")
        return informative(f)

    failing.__qualname__ = informative.__qualname__
    path = tmp_path / "run.zarr"
    with pytest.raises(RuntimeError, match="killed"):
        es.sample(failing, PRIOR, store=path, **OPTIONS)
    tree = es.resume(path, informative, progress=False)
    assert tree.attrs["stopped_by"] == "converged"
    assert_same_stores(whole, path)
    assert {entry.name for entry in tmp_path.iterdir()} == {"whole.zarr", "run.zarr"}


@pytest.mark.parametrize("renames_before", [0, 1])
def test_a_run_killed_while_its_store_is_rewritten_loses_nothing(tmp_path, whole, monkeypatch, renames_before):
    from pathlib import Path

    renames, rename = 0, Path.rename

    def failing(self, target):
        nonlocal renames
        if self.name.startswith("run.zarr") and "partial" not in self.name:
            if renames == renames_before:
                raise SystemExit("killed")
            renames += 1
        return rename(self, target)

    path = tmp_path / "run.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", failing)
        with pytest.raises((SystemExit, OSError)):
            es.sample(informative, PRIOR, store=path, **OPTIONS)
    assert path.exists() == (renames_before == 0)
    with pytest.raises(FileExistsError, match="holds a run already"):
        es.sample(informative, PRIOR, store=path, **OPTIONS)
    es.resume(path, informative, progress=False)
    assert_same_stores(whole, path)
    assert {entry.name for entry in tmp_path.iterdir()} == {"whole.zarr", "run.zarr"}


def test_a_finished_store_is_resumed_with_more_draws(whole):
    before = es.resume(whole, informative, progress=False)
    assert before.attrs["stopped_by"] == "converged"
    f = before.posterior.f.to_numpy()
    more = es.resume(whole, informative, draws=1100, progress=False)
    assert more.posterior.sizes["draw"] == 1100
    np.testing.assert_array_equal(more.posterior.f[:, :1000], f)


# --- method ---------------------------------------------------------------------------------------------------------


def reason(log_likelihood, prior, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return es.sample(log_likelihood, prior, draws=5, warmup=5, **OPTIONS, **options).attrs["move_reason"]


def test_a_likelihood_that_factorises_gets_a_reference():
    assert reason(es.likelihoods.Poisson([2, 0, 1]), es.Diagonal(np.ones(3))).startswith("independent draws: ")


def test_plain_ellipses_that_mix_well_are_kept():
    assert reason(lambda f: -((f.sum() - 1.0) ** 2), PRIOR).startswith("plain ellipses: about ")


def test_plain_ellipses_that_do_not_are_replaced():
    tree = es.sample(lambda f: -2000.0 * (f.sum() - 1.0) ** 2 - 500.0 * (f[0] * f[1] - 2.0) ** 2, PRIOR, **OPTIONS)
    assert tree.attrs["reference"] == "pilot"
    assert tree.attrs["stopped_by"] == "converged"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"look_ahead": 2}, "plain ellipses, because look_ahead was given"),
        ({"engine": "host"}, 'plain ellipses, because engine="host" was given'),
        ({"engine": "batched"}, 'plain ellipses, because engine="batched" was given'),
        ({"precision": "single"}, 'plain ellipses, because precision="single" was given'),
    ],
)
def test_options_that_need_plain_ellipses(options, expected):
    assert reason(es.likelihoods.Poisson([2, 0, 1]), es.Diagonal(np.ones(3)), **options) == expected


def test_workers_do_not_change_the_draws():
    with ThreadPoolExecutor(2) as executor:
        tree = es.sample(coupled, PRIOR, executor=executor, **OPTIONS)
    np.testing.assert_array_equal(tree.posterior.f, es.sample(coupled, PRIOR, **OPTIONS).posterior.f)


def test_a_prior_that_can_only_draw_gets_plain_ellipses():
    prior = es.FromDraws(lambda rng: rng.standard_normal(3), 3)
    assert reason(es.likelihoods.Poisson([2, 0, 1]), prior) == "plain ellipses, because the prior can only draw"


def test_black_boxes_get_plain_ellipses():
    assert reason(informative, PRIOR) == "plain ellipses, because the log-likelihood is not compiled"


def test_a_fit_that_fails_gives_plain_ellipses(monkeypatch):
    def failing(*given):
        raise np.linalg.LinAlgError("not positive definite")

    monkeypatch.setattr(automatic_move, "fit_with_engine", failing)
    expected = "plain ellipses, because no reference could be fitted: not positive definite"
    assert reason(es.likelihoods.Poisson([2, 0, 1]), es.Diagonal(np.ones(3))) == expected


def test_a_log_likelihood_is_factorised_once(monkeypatch):
    calls = []

    def counted(posterior):
        calls.append(posterior)
        return factorise_likelihood(posterior)

    for module in (automatic_move, fit):
        monkeypatch.setattr(module, "factorise_likelihood", counted)
    assert not reason(es.likelihoods.Poisson([2, 0, 1]), es.Diagonal(np.ones(3))).startswith("plain ellipses")
    assert len(calls) == 1


@pytest.fixture
def large(monkeypatch):
    """No reference is fitted for more than two elements."""
    monkeypatch.setattr(automatic_move, "MAX_SIZE", 2)


def test_large_latents_get_rotations_around_the_prior(large):
    x = np.arange(30)
    prior = es.Dense(np.exp(-np.abs(np.subtract.outer(x, x)) / 5.0))
    data = es.likelihoods.Poisson(np.where(x % 7, 0, 40))
    tree = es.sample(data, prior, **OPTIONS)
    assert tree.attrs["move_reason"].startswith("around the prior, trajectories with ")
    assert tree.attrs["move"].startswith("SplitHamiltonian(reference=None, kicks=")
    assert tree.attrs["stopped_by"] == "converged"
    assert "reference" not in tree.attrs


def test_a_pilot_run_around_the_prior_that_fails_gives_plain_ellipses(large, monkeypatch):
    def failing(*given):
        raise FloatingPointError("overflow")

    monkeypatch.setattr(automatic_move, "near_mode", failing)
    expected = "plain ellipses, because the pilot run around the prior failed: overflow"
    assert reason(es.likelihoods.Poisson([2, 0, 1]), es.Diagonal(np.ones(3))) == expected


def test_a_prior_with_many_standard_normals_is_large(monkeypatch):
    """A `Stationary` prior draws on a larger grid, whose covariance factor may not fit into memory."""
    prior = es.Stationary(lambda lag: np.exp(-np.linalg.norm(lag, axis=-1)), shape=(6, 6), spacing=0.2)
    assert prior.noise_size > prior.size
    monkeypatch.setattr(automatic_move, "MAX_SIZE", prior.size)
    assert reason(es.likelihoods.Poisson(np.ones((6, 6))), prior).startswith(("around the prior, ", "ellipses: "))


def test_a_large_linear_predictor_gets_plain_ellipses(large):
    """Its products with the covariance of [f, A f] cannot be compiled."""
    data = es.likelihoods.LinearPredictor(np.ones((3, 2)), es.likelihoods.Poisson([2, 0, 1]))
    assert reason(data, es.Diagonal(np.ones(2))).startswith("plain ellipses, because SplitHamiltonian(None) needs")


def test_large_latents_without_gradient_get_plain_ellipses(large):
    import jax

    def log_likelihood(f):
        return -jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + (f**2).sum()), (0, 0.0))[1]

    assert reason(log_likelihood, PRIOR).startswith("plain ellipses, because the log-likelihood cannot be diff")


def test_a_move_that_is_given_is_used():
    tree = es.sample(
        es.likelihoods.Poisson([2, 0, 1]), es.Diagonal(np.ones(3)), move=es.moves.EllipticalSlice(), **OPTIONS
    )
    assert tree.attrs["move"].startswith("EllipticalSlice(")
    assert "move_reason" not in tree.attrs
    assert tree.attrs["stopped_by"] == "converged"

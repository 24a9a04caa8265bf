"""Reports of `check_convergence`, on results that are made by hand."""

from __future__ import annotations

from typing import Any

import arviz_base
import numpy as np
import pytest

import ellipslice as es


def tree(draws: int = 1000, chains: int = 4, **latents: Any) -> Any:
    """Return a result with these latents, and a log-likelihood that mixes well."""
    rng = np.random.default_rng(0)
    made = arviz_base.from_dict(
        {
            "posterior": {name: values(rng, (chains, draws)) for name, values in latents.items()},
            "sample_stats": {"total_log_likelihood": rng.standard_normal((chains, draws))},
        }
    )
    made.attrs.update(
        engine="host", evaluations=5 * draws, updates=draws, thin=1, interrupted=0, nan_evaluations=0, failed_searches=0
    )
    return made


def mixed(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.standard_normal((*shape, 2))


def own_place(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Return draws in which one chain is in another mode, and a statistic that is constant within each mode."""
    return np.broadcast_to(np.eye(shape[0])[0][:, None], shape)


def slow(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Return a stationary random walk with small steps: the chains agree, but have a small effective sample size."""
    walk = np.zeros(shape)
    for t in range(1, shape[1]):
        walk[:, t] = 0.995 * walk[:, t - 1] + 0.1 * rng.standard_normal(shape[0])
    return walk


def missing(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    values = rng.standard_normal(shape)
    values[0, 3] = np.nan
    return values


def still(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return np.full(shape, 2.0)


def codes(report: Any) -> list[str]:
    return [problem.code for problem in report.problems]


def test_a_run_that_has_converged():
    report = es.diagnostics.check_convergence(tree(f=mixed))
    assert report.converged is True
    assert report
    assert report.problems == report.warnings == report.not_judged == ()
    assert (report.chains, report.draws, report.engine) == (4, 1000, "host")
    assert report.evaluations_per_update == 5.0
    assert report.effective_sample_size > 2000
    assert report.effective_sample_size_of in ("total_log_likelihood", "f[0]", "f[1]")
    assert 0.99 < report.rhat < 1.01
    lines = str(report).splitlines()
    assert lines[0] == "The run has converged."
    assert lines[1] == "4 chains of 1,000 draws on the host engine, 5.0 evaluations per update."
    assert lines[2] == (
        f"Smallest effective sample size: {report.effective_sample_size:,.0f} ({report.effective_sample_size_of})."
    )
    assert lines[3].startswith("Largest R-hat: 1.00")
    assert len(lines) == 4


@pytest.mark.parametrize("draws", [500, 1000])
def test_chains_that_sit_in_places_of_their_own(draws):
    report = es.diagnostics.check_convergence(tree(draws, right=own_place, g=mixed))
    assert report.converged is False
    assert not report
    assert codes(report)[0] == "rhat"
    assert report.rhat > 100
    assert report.rhat_of == "right"
    assert "R-hat must be below 1.028, but that of right is above 100" in str(report)
    assert "more warm-up" in report.problems[0].advice


def test_few_draws_of_a_chain_that_mixes_well():
    report = es.diagnostics.check_convergence(tree(60, f=mixed))
    assert report.converged is False
    assert "effective_sample_size" in codes(report)
    assert "slow_mixing" not in codes(report)
    problem = next(problem for problem in report.problems if problem.code == "effective_sample_size")
    assert "must be at least 400 (100 per chain)" in problem.message
    assert str(problem) == f"{problem.message} {problem.advice}"
    assert str(problem) in str(report)


def test_the_representation_is_one_line_and_a_notebook_shows_the_report():
    from IPython.lib.pretty import pretty

    report = es.diagnostics.check_convergence(tree(60, f=mixed))
    assert repr(report).startswith("ConvergenceReport(converged=False, problems=[")
    assert "effective_sample_size=" in repr(report)
    assert "\n" not in repr(report)
    assert pretty(report) == str(report)


def test_missing_values_are_not_judged():
    report = es.diagnostics.check_convergence(tree(part=missing, f=mixed))
    assert report.converged
    assert report.not_judged == ("part",)
    assert [warning.code for warning in report.warnings] == ["not_judged"]
    assert "Not judged, because values are missing or infinite: part." in str(report)


def test_what_never_changes_does_not_matter():
    report = es.diagnostics.check_convergence(tree(f=mixed, c=still))
    assert report.converged
    assert report.not_judged == ("c",)
    assert "Not judged, because it is constant: c." in str(report)


def test_a_run_in_which_nothing_changes_has_not_converged():
    made = tree(c=still, part=missing)
    made["sample_stats"]["total_log_likelihood"][:] = -1.0
    report = es.diagnostics.check_convergence(made)
    assert report.converged is False
    assert codes(report) == ["nothing_judged"]
    assert np.isnan(report.effective_sample_size)
    assert np.isnan(report.rhat)
    assert report.not_judged == ("part", "c")
    assert "No quantity could be judged" in str(report)
    assert "nan" not in str(report)


def test_an_interrupted_run_and_trouble_are_warnings():
    made = tree(f=mixed)
    made.attrs.update(interrupted=1, nan_evaluations=3, failed_searches=2)
    report = es.diagnostics.check_convergence(made)
    assert report.converged
    assert [warning.code for warning in report.warnings] == ["interrupted", "nan_evaluations", "failed_searches"]
    text = str(report)
    assert "interrupted" in text
    assert "3 evaluations of the log-likelihood returned NaN" in text
    assert "2 updates found no acceptable point" in text


def test_too_few_draws():
    report = es.diagnostics.check_convergence(tree(3, chains=2, f=mixed))
    assert report.converged is False
    assert codes(report) == ["too_few_draws"]
    assert "3 draws per chain are too few" in str(report)
    assert np.isnan(report.effective_sample_size)


def test_one_chain_has_no_rhat():
    report = es.diagnostics.check_convergence(tree(chains=1, f=mixed))
    assert report.converged
    assert np.isnan(report.rhat)
    assert [warning.code for warning in report.warnings] == ["one_chain"]
    assert "R-hat needs at least 2 chains" in str(report)
    assert "1 chain of 1,000 draws" in str(report)
    assert es.diagnostics.check_convergence(tree(60, chains=1, f=mixed)).converged is False


# --- advice for slow mixing -------------------------------------------------------------------------------------------


def advice_for(**attributes: Any) -> str:
    """Return the advice for a run that mixes slowly and has these attributes."""
    made = tree(5000, f=slow)
    made.attrs.update(attributes)
    report = es.diagnostics.check_convergence(made)
    assert "slow_mixing" in codes(report)
    return report.problems[-1].advice


def test_a_plain_run_is_advised_to_use_a_reference():
    assert "reference='auto'" in advice_for()
    assert "Local('names')" in advice_for()
    assert "The chains mix slowly" in str(es.diagnostics.check_convergence(tree(5000, f=slow)))
    assert "mix slowly" not in str(es.diagnostics.check_convergence(tree(f=mixed)))


WITHOUT = {
    "a reference ran": {"reference": "pilot", "move": "ReferenceSlice(...)"},
    "a move around a reference was given": {"move": "Cycle(ReferenceSlice(...), EllipticalSlice())"},
    "constraints": {"prior": "TruncatedGaussian(Diagonal(3), 2 constraints)", "move": "ConstrainedSlice()"},
    "draws without a covariance": {"prior": "FromDraws(3)"},
    "unknown hyperparameters": {"parameter_moves": "sites", "hyperparameters": "{}"},
}


def test_a_reference_is_advised_on_a_device_with_the_engine_that_runs_it():
    assert "reference='auto'" in advice_for(engine="batched", precision="single")
    assert "engine=" not in advice_for(engine="batched")
    assert "reference='auto' and engine='batched'" in advice_for(engine="fused")


@pytest.mark.parametrize("name", WITHOUT)
def test_no_advice_to_use_what_runs_already_or_is_rejected(name):
    advice = advice_for(**WITHOUT[name])
    assert "reference='auto'" not in advice
    assert "Local(" not in advice
    assert "thin=k" in advice


def test_a_reference_is_not_advised_for_more_values_than_it_takes():
    made = tree(20, chains=2, f=lambda rng, shape: rng.standard_normal((*shape, 5001)).cumsum(1))
    made.attrs["thin"] = 1000
    advice = es.diagnostics.check_convergence(made).problems[-1].advice
    assert "thin=k" in advice
    assert "reference" not in advice


def test_a_run_with_another_move_is_told_that_a_reference_replaces_it():
    assert "reference='auto' and without move=" in advice_for(move="RandomWalk(step_size=0.1)")
    local = advice_for(move="Local('f', 'b')")
    assert "reference='auto'" in local
    assert "Local(" not in local
    assert "Local(" not in advice_for(move="EllipticalSlice()", structure="dense")


@pytest.mark.parametrize("case", ["truncated", "reference", "hyperparameters"])
@pytest.mark.long_cases("hyperparameters")
def test_what_is_not_advised_is_told_by_the_attributes_of_a_run(case):
    """Results of real runs have the attributes on which the advice depends."""
    y, options = np.array([50, 40, 60]), {"draws": 4, "warmup": 2, "chains": 2, "seed": 1, "progress": False}
    likelihood, prior = es.likelihoods.Poisson(y), es.Diagonal(np.ones(3))
    if case == "truncated":
        made = es.sample(likelihood, es.TruncatedGaussian(prior, np.eye(3), np.full(3, 9.0)), **options)
    elif case == "reference":
        made = es.sample(likelihood, prior, reference="auto", **options)
    else:
        import numpyro.distributions as dist
        from tinygp import kernels

        unknown = {"amplitude": dist.LogNormal(0.0, 1.0)}
        model = es.gp.LatentGP(
            lambda amplitude: amplitude**2 * kernels.Exp(1.0), es.likelihoods.Poisson, parameters=unknown
        )
        made = model.fit(np.arange(3.0), y, **options).tree
    advice = advice_for(**made.attrs)
    assert "reference='auto'" not in advice
    assert "Local(" not in advice


# --- which quantities are checked -----------------------------------------------------------------------------------


def signs(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.standard_normal((*shape, 2)) > 0


def infinite(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    values = rng.standard_normal(shape)
    values[0, 3] = -np.inf
    return values


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int64, np.float16, np.float32])
def test_booleans_and_whole_numbers_are_judged_as_numbers(kind):
    as_floats, as_kept = (
        es.diagnostics.check_convergence(tree(p=lambda rng, shape, to=to: signs(rng, shape).astype(to)))
        for to in (float, kind)
    )
    assert as_kept == as_floats
    assert as_kept.converged


def test_a_boolean_trace_has_an_efficiency():
    made = tree(p=signs)
    made.attrs["sampling_time"] = 1.0
    found = es.diagnostics.efficiency(made, made.posterior.p[..., 0])
    assert found == es.diagnostics.efficiency(made, made.posterior.p[..., 0].astype(float))


def test_infinite_values_are_said():
    assert "missing or infinite: part." in str(es.diagnostics.check_convergence(tree(part=infinite, f=mixed)))


@pytest.mark.long_cases("batched")
@pytest.mark.parametrize("engine", ["host", "compiled", "batched"])
def test_a_run_that_keeps_booleans_is_judged(engine):
    tree = es.sample(
        lambda f: -(f**2).sum(),
        es.Diagonal(np.ones(2)),
        keep=lambda f: {"p": f > 0, "n": (f > 0).sum()},
        until=es.Until(effective_sample_size=20, max_draws=200),
        seed=1,
        chains=2,
        warmup=5,
        progress=False,
        engine=engine,
    )
    assert tree.attrs["stopped_by"] == "goals"
    assert tree.posterior.p.dtype == bool
    report = es.diagnostics.check_convergence(tree)
    assert report.effective_sample_size > 0
    assert report.not_judged == ()


# --- arguments that are not results ---------------------------------------------------------------------------------


def without(made: Any, *attributes: str) -> Any:
    made = made.copy()
    made.attrs = {name: value for name, value in made.attrs.items() if name not in attributes}
    return made


OTHERS = {
    "one chain": (lambda made: made.isel(chain=0), ValueError, r"no dimension chain.*tree\.isel\(chain=\[0\]\)"),
    "one draw": (lambda made: made.isel(draw=0), ValueError, "no dimension draw"),
    "a dataset": (lambda made: made.posterior.to_dataset(), TypeError, "this is a Dataset.*DataTree that `sample`"),
    "an array": (lambda made: made.posterior.f.values, TypeError, "this is a ndarray"),
    "no statistics": (lambda made: made.drop_nodes("sample_stats"), ValueError, "no group sample_stats.* posterior"),
    "no draws": (lambda made: made.drop_nodes("posterior"), ValueError, "no group posterior"),
    "no groups": (lambda made: made["posterior"], ValueError, "no group posterior; its groups are none"),
    "no attributes": (lambda made: without(made, *made.attrs), ValueError, "no attribute engine"),
    "an attribute": (lambda made: without(made, "updates"), ValueError, "no attribute updates"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_result_is_refused_in_words(name):
    change, kind, message = OTHERS[name]
    for function in (es.diagnostics.check_convergence, es.diagnostics.efficiency):
        with pytest.raises(kind, match=message):
            function(change(tree(f=mixed)))


def test_a_result_of_an_older_version_is_told_the_new_name():
    made = tree(f=mixed)
    made["sample_stats"].dataset = made["sample_stats"].to_dataset().rename(total_log_likelihood="log_likelihood")
    with pytest.raises(ValueError, match=r"has no total_log_likelihood.*the name in older versions: rename it"):
        es.diagnostics.check_convergence(made)

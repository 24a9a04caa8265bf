"""The move of a run with `reference=`: independent draws, ellipses, or rotations with kicks."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from ellipslice.approximations import fit_reference
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.jax_settings import jax_settings
from ellipslice.likelihoods import Poisson, StudentT
from ellipslice.moves import ReferenceSlice, SplitHamiltonian
from ellipslice.posterior import Posterior
from ellipslice.sampling import choose_reference_move as module
from ellipslice.sampling.choose_reference_move import Tuned, WeightedDraws, choose_reference_move

TIMES = np.arange(40)
COVARIANCE = 4.0 * np.exp(-np.abs(np.subtract.outer(TIMES, TIMES)) / 3.0)
ROUGH = es.Dense(COVARIANCE)
FEW = Poisson(np.array([1, 0, 2]))
SMALL = es.Dense(np.eye(3) + 0.5)
OUTLIERS = StudentT(np.where(TIMES % 5, np.sin(TIMES), 6.0), noise_scale=0.1, degrees_of_freedom=2.0)
"""Far from Gaussian: every fifth observation is an outlier, so that many elements have two modes."""

OPTIONS = {"draws": 50, "warmup": 50, "chains": 2, "seed": 1, "progress": False}


def test_a_good_reference_gives_independent_draws():
    tree = es.sample(FEW, SMALL, reference="auto", **OPTIONS)
    assert "independence=True" in tree.attrs["move"]
    assert tree.attrs["reference_move"].startswith("independent draws: 8")
    assert tree.attrs["first_proposal_acceptance_rate"] > 0.7


def test_a_poor_reference_gives_kicks():
    tree = es.sample(OUTLIERS, ROUGH, reference="auto", **OPTIONS)
    kicks = int(tree.attrs["reference_move"].split()[2])
    assert tree.attrs["reference_move"].startswith(f"trajectories with {kicks} kicks: about")
    assert tree.attrs["move"].startswith("SplitHamiltonian(")
    assert f"kicks={kicks}," in tree.attrs["move"]
    assert "first_proposal_acceptance_rate" not in tree.attrs
    assert float(tree.sample_stats.acceptance.mean()) > 0.4


@pytest.fixture
def auto_is(monkeypatch):
    """Let reference="auto" use a Gaussian that the test gives."""
    from ellipslice.sampling import reference_move

    def replace(gaussian):
        original = reference_move.fit_reference
        monkeypatch.setattr(reference_move, "fit_reference", lambda method, *given: original(gaussian, *given))

    return replace


def test_a_reference_that_is_neither_gives_ellipses(auto_is):
    auto_is(es.Dense(0.4 * (np.eye(3) + 0.5), mean=[0.4, -0.2, 0.6]))
    tree = es.sample(FEW, SMALL, reference="auto", **OPTIONS)
    assert "independence=False" in tree.attrs["move"]
    assert tree.attrs["reference_move"].startswith("ellipses: they accept about")


@pytest.mark.parametrize("reference", ["ep", "laplace", es.Dense(COVARIANCE)])
def test_a_reference_that_is_named_gives_no_kicks(reference):
    tree = es.sample(OUTLIERS, ROUGH, reference=reference, **OPTIONS)
    assert tree.attrs["reference_move"] == 'ellipses, because reference is not "auto"'
    assert tree.attrs["move"].startswith("ReferenceSlice(")


def test_the_choice_depends_on_the_seed_alone():
    one, two = (es.sample(OUTLIERS, ROUGH, reference="auto", **OPTIONS) for _ in range(2))
    assert one.attrs["reference_move"] == two.attrs["reference_move"]
    np.testing.assert_array_equal(one.posterior.f, two.posterior.f)


def test_other_chains_have_the_same_move():
    """So that jobs of a cluster with the same seed can divide the chains among them."""
    together = es.sample(OUTLIERS, ROUGH, reference="auto", **OPTIONS)
    alone = es.sample(OUTLIERS, ROUGH, reference="auto", **OPTIONS | {"chains": [1]})
    np.testing.assert_array_equal(alone.posterior.f[0], together.posterior.f[1])


@pytest.mark.parametrize("problem", ["kicks", "ellipses"])
def test_at_most_two_loops_are_compiled(problem, log_compiles, caplog, auto_is):
    data, prior = (OUTLIERS, ROUGH) if problem == "kicks" else (Poisson(np.array([3, 0, 2])), SMALL)
    if problem == "ellipses":
        auto_is(es.Dense(np.eye(3) + 0.5, mean=4.0))
    with caplog.at_level(logging.WARNING, "jax"):
        es.sample(data, prior, reference="auto", **OPTIONS)
    names = ("jit(_call)", "jit(as_single_call)", "jit__call", "jit_as_single_call")
    loops = [
        message
        for message in map(logging.LogRecord.getMessage, caplog.records)
        if "Finished XLA compilation" in message and any(name in message for name in names)
    ]
    assert len(loops) <= 2


def black_box(f):
    return float(np.sum(np.array([1.0, 0.0, 2.0]) * f - np.exp(f)))


def test_a_black_box_gives_ellipses(auto_is):
    auto_is(es.Dense(np.eye(3), mean=4.0))
    tree = es.sample(black_box, SMALL, reference="auto", **OPTIONS)
    assert tree.attrs["reference_move"] == "ellipses, because the log-likelihood is not compiled"


def test_workers_give_ellipses(auto_is):
    auto_is(es.Dense(np.eye(3), mean=4.0))
    with ThreadPoolExecutor(2) as executor:
        tree = es.sample(black_box, SMALL, reference="auto", executor=executor, **OPTIONS)
    assert tree.attrs["reference_move"] == "ellipses, because workers evaluate the log-likelihood"


def test_a_log_likelihood_without_gradient_gives_ellipses(auto_is):
    auto_is(es.Dense(np.eye(3), mean=4.0))

    def log_likelihood(f):
        # JAX cannot differentiate a while loop backwards.
        return -jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + (f**2).sum()), (0, 0.0))[1]

    tree = es.sample(log_likelihood, SMALL, reference="auto", **OPTIONS)
    assert tree.attrs["reference_move"].startswith("ellipses, because the log-likelihood cannot be differentiated (")


def test_a_gradient_that_is_always_nan_gives_ellipses(auto_is):
    """The square root of 0 has an infinite derivative, and 0 times infinity is NaN."""
    auto_is(es.Dense(np.eye(3), mean=4.0))

    def log_likelihood(f):
        return -((f - 2.0) ** 2).sum() + jnp.sqrt(0.0 * f[0])

    tree = es.sample(log_likelihood, SMALL, reference="auto", **OPTIONS)
    assert "independence=False" in tree.attrs["move"]


def test_ellipse_acceptance_is_that_of_a_run():
    """The probability that the first proposal is accepted, from weighted draws and from a long run."""
    with jax_settings():
        engine = CompiledEngine(Posterior(SMALL, FEW))
        given = es.Dense(0.4 * (np.eye(3) + 0.5), mean=[0.4, -0.2, 0.6])
        fitted = fit_reference(given, engine, lambda count: [], 0).reference
        relative = fitted.relative_to(SMALL)
        found = np.mean([WeightedDraws(relative, engine, seed).ellipse_acceptance() for seed in range(40)])
    tree = es.sample(FEW, SMALL, move=ReferenceSlice(fitted), draws=20_000, chains=2, seed=1, progress=False)
    around = np.arange(500, 20_500) % 2048 % 10 != 9
    proposals = tree.sample_stats.proposals.to_numpy()[:, around]
    assert found == pytest.approx((proposals == 1).mean(), abs=0.03)


def test_the_number_of_kicks_is_nearly_the_best():
    """The tuned number has at least 0.7 of the largest score of any number, by longer runs."""
    with jax_settings():
        engine = CompiledEngine(Posterior(ROUGH, OUTLIERS))
        fitted = fit_reference("ep", engine, lambda count: [], 0).reference
        chosen = choose_reference_move(fitted, fitted.relative_to(ROUGH), engine, 5, None)
    scores = {}
    for kicks in module.KICKS[:8]:
        options = {"draws": 300, "warmup": 200, "chains": 4, "seed": 2, "progress": False}
        tree = es.sample(OUTLIERS, ROUGH, move=SplitHamiltonian(fitted, kicks), **options)
        trajectories = (np.arange(200, 500) % 10) != 9
        scores[kicks] = Tuned(kicks, float(tree.sample_stats.acceptance.to_numpy()[:, trajectories].mean())).score
    assert scores[chosen.move.kicks] > 0.7 * max(scores.values())


def test_a_run_that_is_resumed_keeps_its_move(tmp_path):
    whole = es.sample(OUTLIERS, ROUGH, reference="auto", **OPTIONS)
    path = tmp_path / "run.zarr"
    es.sample(OUTLIERS, ROUGH, reference="auto", store=path, **OPTIONS | {"draws": 20})
    rest = es.resume(path, OUTLIERS, draws=50, progress=False)
    np.testing.assert_array_equal(rest.posterior.f, whole.posterior.f)
    assert rest.attrs["reference_move"] == whole.attrs["reference_move"]


def test_runs_with_different_moves_are_joined():
    """Pilot runs may choose differently on another machine. Statistics that only one run has are left out."""
    one = es.sample(OUTLIERS, ROUGH, reference="auto", **OPTIONS)
    itself = es.Dense(COVARIANCE)
    two = es.sample(OUTLIERS, ROUGH, reference=itself, **OPTIONS | {"chains": [2, 3]})
    assert one.attrs["move"] != two.attrs["move"]
    both = es.join([one, two])
    assert both.posterior.sizes["chain"] == 4
    assert set(both.sample_stats.data_vars) == set(one.sample_stats.data_vars) & set(two.sample_stats.data_vars)
    assert "acceptance" in one.sample_stats

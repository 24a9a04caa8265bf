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
from ellipslice.moves.split_hamiltonian import SplitPrepared
from ellipslice.posterior import Posterior
from ellipslice.sampling import choose_reference_move
from ellipslice.sampling.initial_states import reference_starts
from ellipslice.sampling.kick_pilot import (
    KICKS,
    KickPilot,
    Trajectories,
    ellipse_mixing,
    independent_states,
    moves_from_rejections,
)

TIMES = np.arange(40)
COVARIANCE = 4.0 * np.exp(-np.abs(np.subtract.outer(TIMES, TIMES)) / 3.0)
ROUGH = es.Dense(COVARIANCE)
FEW = Poisson(np.array([1, 0, 2]))
SMALL = es.Dense(np.eye(3) + 0.5)
OUTLIERS = StudentT(np.where(TIMES % 5, np.sin(TIMES), 3.0), noise_scale=0.2, degrees_of_freedom=3.0)
"""Far from Gaussian: every fifth observation is an outlier, so that many elements have two modes."""

OPTIONS = {"draws": 50, "warmup": 50, "chains": 2, "seed": 1, "progress": False}


def test_a_good_reference_gives_independent_draws():
    tree = es.sample(FEW, SMALL, reference="auto", **OPTIONS)
    assert "independence=True" in tree.attrs["move"]
    assert tree.attrs["move_reason"].startswith("independent draws: 8")
    assert tree.attrs["first_proposal_acceptance_rate"] > 0.7


def test_a_poor_reference_gives_kicks():
    tree = es.sample(OUTLIERS, ROUGH, reference="auto", **OPTIONS)
    kicks = int(tree.attrs["move_reason"].split()[2])
    assert tree.attrs["move_reason"].startswith(f"trajectories with {kicks} kicks: about")
    assert tree.attrs["move"].startswith("SplitHamiltonian(")
    assert f"kicks={kicks}," in tree.attrs["move"]
    assert "first_proposal_acceptance_rate" not in tree.attrs
    assert float(tree.sample_stats.acceptance.mean()) > 0.1


@pytest.fixture
def auto_is(monkeypatch):
    """Let reference="auto" use a Gaussian that the test gives."""
    from ellipslice.sampling import reference_move

    def replace(gaussian):
        original = reference_move.fit_reference
        monkeypatch.setattr(reference_move, "fit_reference", lambda method, *given: original(gaussian, *given))

    return replace


def test_ellipses_are_used_if_they_are_better(auto_is, monkeypatch):
    monkeypatch.setattr(choose_reference_move, "trajectory_mixing", lambda found: 1e-3)
    auto_is(es.Dense(0.4 * (np.eye(3) + 0.5), mean=[0.4, -0.2, 0.6]))
    tree = es.sample(FEW, SMALL, reference="auto", **OPTIONS)
    assert "independence=False" in tree.attrs["move"]
    assert tree.attrs["move_reason"].startswith("ellipses: about")


@pytest.mark.parametrize("reference", ["ep", "laplace", es.Dense(COVARIANCE)])
def test_a_reference_that_is_named_gives_no_kicks(reference):
    tree = es.sample(OUTLIERS, ROUGH, reference=reference, **OPTIONS)
    assert tree.attrs["move_reason"] == 'ellipses, because reference is not "auto"'
    assert tree.attrs["move"].startswith("ReferenceSlice(")


def test_the_choice_depends_on_the_seed_alone():
    one, two = (es.sample(OUTLIERS, ROUGH, reference="auto", **OPTIONS) for _ in range(2))
    assert one.attrs["move_reason"] == two.attrs["move_reason"]
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
    assert tree.attrs["move_reason"] == "ellipses, because the log-likelihood is not compiled"


def test_workers_do_not_change_the_choice():
    alone = es.sample(OUTLIERS, ROUGH, reference="auto", **OPTIONS)
    with ThreadPoolExecutor(2) as executor:
        tree = es.sample(OUTLIERS, ROUGH, reference="auto", executor=executor, **OPTIONS)
    np.testing.assert_array_equal(tree.posterior.f, alone.posterior.f)


def test_a_log_likelihood_without_gradient_gives_ellipses(auto_is):
    auto_is(es.Dense(np.eye(3), mean=4.0))

    def log_likelihood(f):
        # JAX cannot differentiate a while loop backwards.
        return -jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + (f**2).sum()), (0, 0.0))[1]

    tree = es.sample(log_likelihood, SMALL, reference="auto", **OPTIONS)
    assert tree.attrs["move_reason"].startswith("ellipses, because the log-likelihood cannot be differentiated (")


def test_a_gradient_that_is_always_nan_gives_ellipses(auto_is):
    """The square root of 0 has an infinite derivative, and 0 times infinity is NaN."""
    auto_is(es.Dense(np.eye(3), mean=4.0))

    def log_likelihood(f):
        return -((f - 2.0) ** 2).sum() + jnp.sqrt(0.0 * f[0])

    tree = es.sample(log_likelihood, SMALL, reference="auto", **OPTIONS)
    assert "independence=False" in tree.attrs["move"]


def test_ellipses_move_as_far_as_in_a_run():
    """The estimate from single updates is that of the jumps of a long run, for a Gaussian posterior."""
    given = es.Dense(0.4 * (np.eye(3) + 0.5), mean=[0.4, -0.2, 0.6])
    with jax_settings():
        engine = CompiledEngine(Posterior(SMALL, FEW))
        fitted = fit_reference(given, engine, lambda count: [], 0).reference
        relative = fitted.relative_to(SMALL)
    tree = es.sample(FEW, SMALL, move=ReferenceSlice(fitted), draws=20_000, chains=2, seed=1, progress=False)
    f = tree.posterior.f.to_numpy()
    around = np.flatnonzero(np.arange(500, 20_499) % 2048 % 10 != 8)  # the update after draw i is not plain
    jumps = ((f[:, 1:] - f[:, :-1]) ** 2)[:, around].mean((0, 1))
    expected = independent_states(jumps, f.var((0, 1)))
    with jax_settings():
        pieces = [f[:, i : i + 2000] for i in range(0, 20_000, 2000)]
        found = [
            ellipse_mixing(Trajectories(1, 1.0, 1.0, piece), relative, engine, seed)
            for seed, piece in enumerate(pieces)
        ]
    assert 0.2 * expected < np.mean(found) < 1.2 * expected  # the harmonic mean over states is smaller


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_rejections_of_equal_probability_give_the_rate_of_independence_metropolis(rate):
    accepted = np.random.default_rng(1).uniform(size=(4, 20_000)) < rate
    assert moves_from_rejections(accepted) == pytest.approx(rate / (2 - rate), rel=0.05)


def test_states_that_are_rarely_left_count():
    """Half of the updates are accepted, but one chain in four stays where it is."""
    accepted = np.ones((4, 100), bool)
    accepted[0] = False
    assert moves_from_rejections(accepted) == 400 / (300 + 100**2)


def test_the_number_of_kicks_is_nearly_the_best():
    """The tuned number has at least half of the largest score of any number, by longer runs."""
    with jax_settings():
        engine = CompiledEngine(Posterior(ROUGH, OUTLIERS))
        fitted = fit_reference("ep", engine, lambda count: [], 0).reference
        relative = fitted.relative_to(ROUGH)
        starts = reference_starts(engine, relative, 5, range(4))
        tuned = KickPilot(fitted, SplitPrepared.around(relative, 1), engine, starts, 5).tune()
    scores = {}
    for kicks in KICKS[2:]:
        options = {"draws": 1000, "warmup": 200, "chains": 4, "seed": 2, "progress": False}
        tree = es.sample(OUTLIERS, ROUGH, move=SplitHamiltonian(fitted, kicks), **options)
        trajectories = (np.arange(200, 1200) % 10) != 9
        scores[kicks] = moves_from_rejections(tree.sample_stats.angle.to_numpy()[:, trajectories] != 0) / (kicks + 1)
    assert scores[tuned.kicks] > 0.5 * max(scores.values())


def test_a_run_that_is_resumed_keeps_its_move(tmp_path):
    whole = es.sample(OUTLIERS, ROUGH, reference="auto", **OPTIONS)
    path = tmp_path / "run.zarr"
    es.sample(OUTLIERS, ROUGH, reference="auto", store=path, **OPTIONS | {"draws": 20})
    rest = es.resume(path, OUTLIERS, draws=50, progress=False)
    np.testing.assert_array_equal(rest.posterior.f, whole.posterior.f)
    assert rest.attrs["move_reason"] == whole.attrs["move_reason"]


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

"""The JavaScript of `ellipslice explore` gives the results of the library, on the same random numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ellipslice as es
from ellipslice.moves import EllipticalSlice, State
from ellipslice.moves.search import search
from ellipslice.noise import as_uniform, threefry, uniform
from explored import CORRELATION, COVARIANCE, LIKELIHOODS, SD_1, SD_2, UNDEFINED, disagreements, expected, node

PRIOR = f"gaussianPrior({SD_1}, {SD_2}, {CORRELATION})"


def problem(likelihood, seed):
    """Return the arguments of a `Run` of the page."""
    settings = f'seed: {seed}, epsilon: 0.3, width: 1, bracket: {{width: FULL_TURN, shrinking: "cut"}}'
    return f"{{prior: {PRIOR}, logLikelihood: LIKELIHOODS.{likelihood}.log, {settings}}}"


def test_updates_look_at_the_same_angles_and_end_at_the_same_places():
    assert disagreements(count=60, seed=1) == []


def test_the_cases_reach_every_branch():
    found = [wanted for _, wanted in expected(count=60, seed=1)]
    assert max(len(one["angles"]) for one in found) > 10
    assert {len(one["angles"]) == 1 for one in found} == {True, False}
    assert {one["neal"][-1] == 0 for one in found} == {True, False}
    assert any(min(one["angles"]) < 0 < max(one["angles"]) for one in found)


def test_every_likelihood_of_the_page_is_written_again_here():
    assert set(node("Object.keys(LIKELIHOODS)")) == set(LIKELIHOODS) - {"undefined"}


@pytest.mark.parametrize("name", sorted(set(LIKELIHOODS) - {"undefined"}))
def test_likelihoods(name):
    points = np.random.default_rng(2).uniform(-3, 3, (200, 2))
    expected = [float(LIKELIHOODS[name](f)) for f in points]
    found = node(f"data.map(LIKELIHOODS.{name}.log)", points.tolist())
    np.testing.assert_allclose(np.array(found, float), expected, rtol=1e-12, atol=1e-12)


def test_prior():
    factor = np.array(node(f"[[1, 0], [0, 1]].map({PRIOR}.color)")).T
    np.testing.assert_allclose(factor @ factor.T, COVARIANCE, rtol=1e-14)
    inverse = node(f"[[1, 0], [0, 1]].map({PRIOR}.solve)")
    np.testing.assert_allclose(inverse @ COVARIANCE, np.eye(2), atol=1e-14)
    f = [0.7, -1.2]
    expected = -0.5 * np.array(f) @ np.linalg.solve(COVARIANCE, f)
    np.testing.assert_allclose(node(f"{PRIOR}.logDensity(data)", f), expected)


def test_the_way_back_leads_back():
    """Equation (12): with the random numbers of the reverse move, the algorithm returns to the previous state."""
    given = [case for case, _ in expected(count=60, seed=1)]
    program = f"""(() => {{
      {UNDEFINED};
      const events = (one, state, noise) =>
        [...ellipticalUpdate(state, noise, LIKELIHOODS[one.likelihood].log, one.bracket)];
      const told = (all) => all.filter((event) => event.step === 4).map((event) =>
        [event.theta, event.thetaMin, event.thetaMax]);
      return data.map((one) => {{
        const state = {{ f: one.f, value: one.value }};
        const noise = {{ nu: one.nu, level: one.level, uniform: (k) => one.uniforms[k] }};
        const there = events(one, state, noise);
        const back = events(one, there.at(-1).state, wayBack(state, noise, there, one.bracket));
        return [back.at(-1).state.f, told(there), told(back)];
      }});
    }})()"""
    for case, (end, there, back) in zip(given, node(program, given), strict=True):
        np.testing.assert_allclose(end, case["f"], atol=1e-9)
        last = there[-1][0]
        np.testing.assert_allclose(np.array(back)[:-1], np.array(there)[:-1] - last, atol=1e-9)
        wanted = np.array([0, there[-1][1], there[-1][2]]) - last
        if len(there) == 1 and case["bracket"]["width"] == 2 * math.pi:  # a first angle is between 0 and 2 pi
            wanted = np.array([2 * math.pi, 0, 2 * math.pi]) - last
        np.testing.assert_allclose(back[-1], wanted, atol=1e-9)


# --- random numbers -------------------------------------------------------------------------------------------------


def numbers(seed, update, indices, stream):
    """Return numbers of the library's generator, at the counters that the page uses."""
    key = np.array([seed, update], np.uint32)
    index = np.array(indices, np.uint32)
    return as_uniform(*threefry(key[0], key[1], index, np.full_like(index, stream)), np.float64)


def noise(seed, update, factor):
    u, v, w = numbers(seed, update, range(3), stream=1)
    normals = math.sqrt(-2 * math.log1p(-u)) * np.array([math.cos(2 * math.pi * v), math.sin(2 * math.pi * v)])
    return factor @ normals, -math.log1p(-w), numbers(seed, update, range(200), stream=0)


def test_uniforms_are_the_librarys_to_the_bit():
    keys = np.random.default_rng(3).integers(0, 2**32, (50, 3), dtype=np.uint32)
    expected = [uniform(key[None, :2], key[2:])[0] for key in keys]
    assert node("data.map(([a, b, index]) => uniform(a, b, index))", keys.tolist()) == expected


@pytest.mark.parametrize("name", ["gaussian", "banana", "modes"])
def test_a_whole_chain(name):
    program = f"""(() => {{
      const run = new Run({problem(name, 4000000000)}, ["elliptical"]);
      for (let k = 0; k < 100; k++) run.finish();
      const [chain] = run.chains;
      return [chain.problem.start, chain.trace.f1, chain.trace.f2, chain.trace.logL, total(chain.trace.evaluations)];
    }})()"""
    start, *trace, evaluations = node(program)
    factor = np.linalg.cholesky(COVARIANCE)
    state, total = State(np.array(start), float(LIKELIHOODS[name](start))), 0
    found = []
    for update in range(100):
        nu, level, uniforms = noise(4000000000, update, factor)
        state, info = search(EllipticalSlice(), nu, level, uniforms.__getitem__, state, LIKELIHOODS[name])
        found.append([*state.f, state.log_likelihood])
        total += info.evaluations
    np.testing.assert_allclose(np.array(trace), np.array(found).T, rtol=1e-8, atol=1e-8)
    assert evaluations == total


def test_step_proposal_and_update_lead_to_the_same_chain():
    program = f"""["step", "proposal", "finish"].map((how) => {{
      const run = new Run({problem("narrow", 5)}, Object.keys(METHODS));
      while (run.update < 20) run[how]();
      return run.chains.map((chain) => chain.trace);
    }})"""
    by_step, by_proposal, by_update = node(program)
    assert by_step == by_proposal == by_update
    assert len(by_step) == 3
    assert len(by_step[0]["f1"]) == 20


def test_a_dragged_state_meets_the_same_noise():
    program = f"""(() => {{
      const run = new Run({problem("gaussian", 6)}, ["elliptical"]);
      for (let k = 0; k < 7; k++) run.finish();
      const [chain] = run.chains;
      const [home, nu, before] = [chain.origin.f, chain.noise.nu, chain.state];
      run.replay({{ f: [0.1, 0.2] }});
      const away = chain.state;
      run.replay({{ f: home }});
      return {{ before, away, after: chain.state, same: chain.noise.nu === nu, counted: chain.trace.f1.length }};
    }})()"""
    found = node(program)
    assert found["after"] == found["before"] != found["away"]
    assert found["same"] is True
    assert found["counted"] == 1


# --- summaries of a run ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "memory"), [(20, 0.0), (30, 0.5), (1000, 0.9), (5000, -0.4), (777, 0.99)])
def test_effective_size_is_the_papers_measure(length, memory):
    rng = np.random.default_rng(length)
    trace = np.empty(length)
    value = 0.0
    for k in range(length):
        trace[k] = value = memory * value + rng.standard_normal()
    expected = es.diagnostics.effective_sample_size(trace)
    np.testing.assert_allclose(float(node("effectiveSize(data)", trace.tolist())), expected, rtol=1e-8)


def test_effective_size_of_what_never_moved():
    assert node("effectiveSize([0.3, 0.3, 0.3, 0.3])") == 0


def test_histogram():
    trace = np.random.default_rng(7).standard_normal(500)
    expected = np.histogram(trace, 20, (-2, 2))[0] / 500 / 0.2
    np.testing.assert_allclose(node("[...histogram(data, -2, 2, 20)]", trace.tolist()), expected)


def test_the_exact_posterior_is_exact():
    """For a Gaussian posterior the page has the right mean, contours of given mass and marginal density."""
    program = f"""(() => {{
      const truth = makeTruth({PRIOR}, LIKELIHOODS.gaussian.log);
      const curve = exactDensity(truth, "f1", -5, 5, 10);
      const levels = truth.levels.map((level) => level - truth.top);
      return [levels, describe(truth, "f1").mean, describe(truth, "f2").mean, curve];
    }})()"""
    levels, mean_1, mean_2, curve = node(program)
    covariance = np.linalg.inv(np.linalg.inv(COVARIANCE) + np.eye(2) / 0.25)
    mean = covariance @ [1.1 / 0.25, 0.8 / 0.25]
    np.testing.assert_allclose([mean_1, mean_2], mean, atol=1e-3)  # the range leaves a little out
    np.testing.assert_allclose(levels, np.log([0.5, 0.1, 0.01]), atol=0.02)
    value, density = np.array(curve).T
    expected = np.exp(gaussian_log(value, mean[0], covariance[0, 0]))
    np.testing.assert_allclose(density, expected, atol=1e-6)


def gaussian_log(x, mean, variance):
    return -0.5 * (x - mean) ** 2 / variance - 0.5 * math.log(2 * math.pi * variance)


def test_contours_lie_on_their_level():
    segments = node("contour(makeField(([a, b]) => -a * a - b * b, [-2, 2], [-2, 2], 101, 101), -1)")
    ends = np.array(segments).reshape(-1, 2)
    assert len(ends) > 200
    np.testing.assert_allclose(np.hypot(*ends.T), 1, atol=1e-3)

"""Run `sample` (and `resume`) with a row of options, and check everything that must hold."""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from arviz_stats.base import array_stats
from scipy import stats

import ellipslice as es
from combinations.pairs import Refusal, Row, refusals_of
from combinations.problems import LIKELIHOODS, MOVES, PRIORS, SIZE, PriorCase, answer, quantities
from combinations.refusals import REFUSALS
from ellipslice.sampling.drive import Plan
from ellipslice.sampling.sinks import Collector

RARE_MOVES = ["NUTS", "Local by k-means"]
"""Moves that are in a few rows only. NUTS takes long to compile, and k-means only chooses other blocks for `Local`."""

OPTIONS: dict[str, list[Any]] = {
    "prior": list(PRIORS),
    "likelihood": list(LIKELIHOODS),
    "move": [move for move in MOVES if move not in RARE_MOVES],
    "engine": ["host", "compiled", "chosen", "batched", "fused"],
    "precision": ["double", "single"],
    "keep": ["all", "none", "a dict", "an array", "booleans"],
    "reference": ["none", "auto", "laplace", "ep", "pilot", "given"],
    "store": ["none", "store", "resume"],
    "until": ["none", "effective sample size", "R-hat", "draws"],
    "executor": ["none", "threads", "a function"],
    "look_ahead": ["none", "1", "4"],
    "log_concave": ["unknown", "yes", "no"],
    "chains": ["two", "one", "5 and 3"],
    "initial": ["prior draws", "one point", "one for each"],
    "thin": ["1", "3"],
    "dims": ["none", "names", "labels"],
}
TOTAL = "total_log_likelihood"
"""Name of the total log-likelihood in `sample_stats`."""

WARMUP, DRAWS, FEW = 30, 250, 25
"""Draws of the plain run, which is compared with the exact answer, and of the run of a row without a goal."""

HOST_DRAWS = 120
"""Draws of the plain run on the host, where each is slow."""

CHAINS = {"two": 2, "one": 1, "5 and 3": [5, 3]}
NUMBERS = {"two": [0, 1], "one": [0], "5 and 3": [5, 3]}
PLAIN_CHAINS = [0, 1, 3, 5]

DEFAULTS = {option: values[0] for option, values in OPTIONS.items()}

# --- what the options are -------------------------------------------------------------------------------------------


def keep_of(row: Row) -> Any:
    return {"all": None, "none": False, "a dict": kept_dict, "an array": kept_array, "booleans": kept_booleans}[
        row["keep"]
    ]


def flattened(*latents: Any, **named: Any) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in (*latents, *named.values())])


def kept_dict(*latents: Any, **named: Any) -> Any:
    f = flattened(*latents, **named)
    return {"total": f.sum(), "ends": f[[0, -1]]}


def kept_array(*latents: Any, **named: Any) -> Any:
    return flattened(*latents, **named)[1:]


def kept_booleans(*latents: Any, **named: Any) -> Any:
    return {"positive": flattened(*latents, **named) > 0}


def until_of(row: Row) -> Any:
    return {
        "none": None,
        "effective sample size": es.Until(effective_sample_size=3, max_draws=400),
        "R-hat": es.Until(rhat=4.0, max_draws=400),
        "draws": es.Until(max_draws=FEW),
    }[row["until"]]


def look_ahead_of(row: Row) -> Any:
    return None if row["look_ahead"] == "none" else int(row["look_ahead"])


def initial_of(row: Row, case: PriorCase, numbers: list[int]) -> Any:
    if row["initial"] == "prior draws":
        return None
    points = case.latents(case.points[2] if row["initial"] == "one point" else case.points[numbers])
    return points["f"] if list(points) == ["f"] else points


def reference_of(row: Row, case: PriorCase) -> Any:
    if row["reference"] != "given":
        return None if row["reference"] == "none" else row["reference"]
    if case.layout == {"f": (2, 2)}:
        return es.Kronecker(0.8 * case.covariance[::2, ::2] / case.covariance[0, 0], case.covariance[:2, :2])
    if case.layout == {"f": (SIZE,)}:
        return es.Dense(0.8 * case.covariance, case.mean)
    return es.Stack({"g": es.Dense(0.8 * case.covariance[:3, :3]), "b": es.Diagonal(0.8)})


def dims_of(row: Row, case: PriorCase) -> dict[str, Any]:
    if row["dims"] == "none":
        return {}
    shapes = {
        "all": case.layout,
        "none": case.layout,
        "a dict": {"ends": (2,)},
        "an array": {"f": (SIZE - 1,)},
        "booleans": {"positive": (SIZE,)},
    }[row["keep"]]
    dims = {name: [f"{name}_axis_{i}" for i in range(len(shape))] for name, shape in shapes.items()}
    if row["dims"] == "names":
        return {"dims": dims}
    coords = {f"{name}_axis_{i}": list("abcd")[:n] for name, shape in shapes.items() for i, n in enumerate(shape)}
    return {"dims": dims, "coords": coords}


@contextmanager
def executor_of(row: Row) -> Iterator[Executor | Any]:
    if row["executor"] == "none":
        yield None
    elif row["executor"] == "a function":
        yield lambda: ThreadPoolExecutor(1)
    else:
        afresh = get_context("spawn")  # a forked process would lack JAX's threads
        threads = row["executor"] == "threads"
        with ThreadPoolExecutor(2) if threads else ProcessPoolExecutor(2, mp_context=afresh) as pool:
            yield pool


def settings(row: Row, numbers: list[int]) -> dict[str, Any]:
    """Return only the options that determine the draws."""
    case = PRIORS[row["prior"]]
    likelihood = LIKELIHOODS[row["likelihood"]]
    return {
        "log_likelihood": likelihood.make(case),
        "prior": case.make(),
        "move": MOVES[row["move"]](),
        "engine": None if row["engine"] == "chosen" else row["engine"],
        "precision": row["precision"],
        "reference": reference_of(row, case),
        "vectorized": likelihood.vectorized,
        "log_concave": {"unknown": None, "yes": True, "no": False}[row["log_concave"]],
        "initial": initial_of(row, case, numbers),
        "warmup": WARMUP,
        "seed": 1 + sum(map(ord, row["prior"] + row["likelihood"] + row["move"])),
        "progress": False,
    }


def run(row: Row, folder: Path, executor: Any = None) -> Any:
    """Run a row with all its options."""
    case = PRIORS[row["prior"]]
    until, draws = until_of(row), None if row["until"] != "none" else FEW
    given = settings(row, NUMBERS[row["chains"]])
    path = None if row["store"] == "none" else folder / "run.zarr"
    tree = es.sample(
        **given,
        chains=CHAINS[row["chains"]],
        thin=int(row["thin"]),
        keep=keep_of(row),
        look_ahead=look_ahead_of(row),
        until=es.Until(max_draws=10) if row["store"] == "resume" and until else until,
        draws=10 if row["store"] == "resume" and not until else draws,
        executor=executor,
        store=path,
        **dims_of(row, case),
    )
    if row["store"] == "resume":
        assert path is not None
        again = {"prior": given["prior"]} if row["prior"] in ("FromDraws", "Stationary", "Markov") else {}
        if row["move"] == "ControlVariables":
            again["move"] = given["move"]
        keep = {"keep": keep_of(row)} if callable(keep_of(row)) else {}
        more = {"until": until} if until else {"draws": draws}
        tree = es.resume(path, given["log_likelihood"], **more, **again, **keep, executor=executor, progress=False)
    return tree


def is_slow(row: Row) -> bool:
    """Return whether each evaluation runs JAX operations one by one, which is a hundred times slower than NumPy."""
    likelihood = LIKELIHOODS[row["likelihood"]]
    return row["engine"] == "host" and likelihood.traced and not likelihood.own_class


def is_compiled(row: Row) -> bool:
    """Return whether a program is compiled for the row, which takes longer than everything else."""
    return row["engine"] != "host" and LIKELIHOODS[row["likelihood"]].traced


def on_device(row: Row) -> bool:
    """Return whether all chains run in one program, which is compiled for their number."""
    return row["engine"] == "batched" or row["precision"] == "single"


def plain_run(row: Row) -> Any:
    """Run a row without the options that must not change a draw. It has the same draws, and more of them.

    If all chains run in one program, it has the options that would require another compilation.
    """
    if on_device(row):
        own = {"chains": CHAINS[row["chains"]], "thin": int(row["thin"]), "look_ahead": look_ahead_of(row)}
        return es.sample(**settings(row, NUMBERS[row["chains"]]), **own, draws=DRAWS)
    draws = DRAWS if is_compiled(row) else 60 if is_slow(row) else HOST_DRAWS
    return es.sample(**settings(row, PLAIN_CHAINS), chains=PLAIN_CHAINS, draws=draws)


def cost(row: Row) -> float:
    """Return the approximate cost of a row with some of its options. The generator prefers cheap rows."""
    if "likelihood" not in row or "engine" not in row:
        return 0.0
    if row["engine"] == "batched" or row.get("precision") == "single":
        return 4.0
    return 2.0 if is_compiled(row) else float(is_slow(row))


# --- what must be true ----------------------------------------------------------------------------------------------

COMPARISONS = 1000 * (2 * SIZE + 1)
FALSE_ALARMS = 1e-6
LIMIT = float(stats.norm.isf(FALSE_ALARMS / COMPARISONS / 2))
"""Largest |z| that passes: 6.6. The probability of a false alarm in a table of 1,000 rows is below 1e-6."""

SAFETY = 2.0
"""Effective sample sizes are divided by this, because they are estimated from a few hundred draws."""


def check(row: Row, folder: Path) -> str:
    """Run a row and raise AssertionError if anything is wrong. Return "ran" or "refused"."""
    expected = refusals_of(row, REFUSALS)
    with warnings.catch_warnings(), short_pilots(), recorded_starts() as started:
        warnings.simplefilter("error")
        try:
            with executor_of(row) as executor:
                tree = run(row, folder, executor)
        except Exception as error:  # noqa: BLE001  any other error than a listed one is raised again
            check_refused(error, expected, started, folder)
            return "refused"
        assert not expected, f"it ran, but it must raise: {expected[0].message}"
        plain = plain_run(row)
        check_starts(row, started[0])
        check_form(row, tree)
        check_same_draws(row, tree, plain)
        check_answer(row, plain)
        if row["keep"] != "none":
            assert str(es.diagnostics.check_convergence(tree))
    return "ran"


@contextmanager
def short_pilots() -> Iterator[None]:
    """Make pilot runs short. That is enough for four elements, and draws are valid for any reference."""
    module: Any = import_module("ellipslice.approximations.pilot")
    before = module.UPDATES, module.ROUNDS
    module.UPDATES, module.ROUNDS = 200, 2
    try:
        yield
    finally:
        module.UPDATES, module.ROUNDS = before


@contextmanager
def recorded_starts() -> Iterator[list[np.ndarray]]:
    """Records the centred flat initial states of the chains at each start."""
    started: list[np.ndarray] = []
    modules: list[Any] = [sys.modules[f"ellipslice.sampling.{name}"] for name in ("sample", "resume")]
    before = [module.drive for module in modules]

    def noted(plan: Plan, collector: Collector, *arguments: Any) -> Any:
        started.append(np.stack([checkpoint.state.f for checkpoint in collector.resume_points]))
        return before[0](plan, collector, *arguments)

    for module in modules:
        module.drive = noted
    try:
        yield started
    finally:
        for module, drive in zip(modules, before, strict=True):
            module.drive = drive


def check_refused(error: Exception, expected: list[Refusal], started: list[np.ndarray], folder: Path) -> None:
    """Check that an error is listed, raised before any draw and by this library, and that no store is left."""
    if not any(isinstance(error, one.error) and re.search(one.message, str(error)) for one in expected):
        error.add_note("no refusal that this row meets has this error" if expected else "this row must run")
        raise error
    assert not started, f"raised after the chains started: {error}"
    where = traceback.extract_tb(error.__traceback__)[-1].filename
    assert Path(where).is_relative_to(Path(es.__file__).parent), f"raised in {where}: {error}"
    assert not (folder / "run.zarr").exists(), "a rejected run left a store"


def check_starts(row: Row, found: np.ndarray) -> None:
    """Check that chains start at the given states, or each at a different one."""
    case, numbers = PRIORS[row["prior"]], NUMBERS[row["chains"]]
    f = case.mean + found[:, :SIZE]
    if row["initial"] == "prior draws":
        assert len({start.tobytes() for start in f}) == len(numbers)
        return
    expected = np.broadcast_to(case.points[2], f.shape) if row["initial"] == "one point" else case.points[numbers]
    np.testing.assert_allclose(f, expected, atol=1e-6 if row["precision"] == "single" else 1e-12)


def check_form(row: Row, tree: Any) -> None:
    """Check groups, names, shapes, types, dimensions and coordinates."""
    case, single = PRIORS[row["prior"]], row["precision"] == "single"
    number = np.dtype(np.float32 if single else np.float64)
    latents = {name: (shape, number) for name, shape in case.layout.items()}
    kept = {
        "all": latents,
        "none": {},
        "a dict": {"total": ((), number), "ends": ((2,), number)},
        "an array": {"f": ((SIZE - 1,), number)},
        "booleans": {"positive": ((SIZE,), np.dtype(bool))},
    }[row["keep"]]
    count = {"none": FEW, "draws": FEW}.get(row["until"]) or tree.attrs["draws"]
    assert count == tree.attrs["draws"]
    assert row["until"] in ("none", "draws") or tree.attrs["stopped_by"] == "goals"
    numbers = NUMBERS[row["chains"]]
    found = {name: (values.shape, values.dtype) for name, values in tree["posterior"].data_vars.items()}
    assert found == {name: ((len(numbers), count, *shape), dtype) for name, (shape, dtype) in kept.items()}
    named = dims_of(row, case)
    for name, values in tree["posterior"].data_vars.items():
        axes = named.get("dims", {}).get(name, [f"{name}_dim_{i}" for i in range(values.ndim - 2)])
        assert values.dims == ("chain", "draw", *axes)
        for axis in axes:
            labels = named.get("coords", {}).get(axis, range(values.sizes[axis]))
            assert list(values[axis].values) == list(labels)
    statistics = tree["sample_stats"]
    assert list(statistics["chain"].values) == numbers
    assert statistics[TOTAL].shape == (len(numbers), count)
    assert statistics[TOTAL].dtype == np.float64
    engine = "batched" if single or row["engine"] == "batched" else "compiled"
    runs = engine if LIKELIHOODS[row["likelihood"]].traced and row["engine"] != "host" else "host"
    assert tree.attrs["engine"] == runs
    assert (tree.attrs["precision"], tree.attrs["thin"]) == (row["precision"], int(row["thin"]))
    assert not tree.attrs["nan_evaluations"]


def check_same_draws(row: Row, tree: Any, plain: Any) -> None:
    """Check that draws are bit-identical to those of the plain run, and that `keep` is applied to them."""
    case, thin = PRIORS[row["prior"]], int(row["thin"]) // plain.attrs["thin"]
    every, length = slice(thin - 1, None, thin), tree.attrs["draws"]
    there = list(plain["sample_stats"]["chain"].values)
    chains = [there.index(number) for number in NUMBERS[row["chains"]]]
    for name in (TOTAL, "search_failed", "angle"):
        expected = plain["sample_stats"][name].values[chains, every][:, :length]
        found = tree["sample_stats"][name].values[:, : expected.shape[1]]
        np.testing.assert_array_equal(found, expected, err_msg=f"{name} is not that of the plain run")
    states = {name: plain["posterior"][name].values[chains, every][:, :length] for name in case.layout}
    keep = keep_of(row)
    if keep is False:
        return
    if keep is None:
        expected_kept = states
    else:
        shape = next(iter(states.values())).shape[:2]
        each = []
        for index in np.ndindex(*shape):
            result = keep(**{name: values[index] for name, values in states.items()})
            each.append(result if isinstance(result, dict) else {"f": result})
        expected_kept = {name: np.stack([one[name] for one in each]) for name in each[0]}
        expected_kept = {name: values.reshape(*shape, *values.shape[1:]) for name, values in expected_kept.items()}
    rounding = (
        {"single": 1e-6, "double": 1e-14}[row["precision"]] if keep else 0.0
    )  # for sums that are compiled for a device
    for name, expected in expected_kept.items():
        found = tree["posterior"][name].values[:, : expected.shape[1]]
        np.testing.assert_allclose(found, expected, rtol=rounding, atol=rounding, err_msg=f"{name} is not of this draw")


def check_answer(row: Row, plain: Any) -> None:
    """Check the log-likelihood of each draw, and that the means agree with the posterior within Monte Carlo error."""
    case, likelihood = PRIORS[row["prior"]], LIKELIHOODS[row["likelihood"]]
    f = case.flat(plain["posterior"]).astype(np.float64)
    totals = plain["sample_stats"][TOTAL].values
    assert np.isfinite(f).all()
    assert np.isfinite(totals).all()
    assert (f >= case.lower).all(), "a draw violates the constraints"
    exact = likelihood.values(f.reshape(-1, SIZE)).reshape(f.shape[:2])
    rounding = 1e-5 if row["precision"] == "single" or "float32" in row["likelihood"] else 1e-9
    np.testing.assert_allclose(
        totals, exact, rtol=rounding, atol=rounding, err_msg="not the log-likelihood of its draw"
    )
    known = answer(row["prior"], row["likelihood"])
    values = quantities(f, exact)
    moving = known.deviation > 1e-6
    size = array_stats.ess(values[..., moving], chain_axis=0, draw_axis=1, method="mean") / SAFETY
    assert (size > LEAST * f.shape[1]).all(), f"effective sample sizes of {f.shape[1]} draws: {size}"
    error = np.hypot(known.deviation[moving] / np.sqrt(size), known.error[moving])
    z = (values.mean(axis=(0, 1)) - known.mean)[moving] / error
    assert (np.abs(z) < LIMIT).all(), f"means differ by {z.round(1)} standard errors"


LEAST = 0.02
"""Return the smallest effective sample size of a run, as a fraction of its draws."""

"""Workers in real processes: workers that die, hang, cannot be reached, or are interrupted by Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import ellipslice as es
from ellipslice.engines.workers import engine as workers_engine
from farmed import PRIOR, AwkwardError, Pickled, awkward, bowl, deadly, hangs_now_and_then, slow_bowl, traced_bowl

OPTIONS = {"draws": 40, "warmup": 5, "chains": 2, "seed": 4, "progress": False}


def processes(count=2):
    """Workers in new processes. Forked ones would have JAX's locks without its threads."""
    return ProcessPoolExecutor(count, mp_context=get_context("spawn"))


@pytest.fixture(scope="module")
def pool():
    with processes() as made:
        yield made


@pytest.mark.parametrize("log_likelihood", [bowl, traced_bowl])
def test_processes_make_the_same_draws(pool, log_likelihood):
    alone = es.sample(log_likelihood, PRIOR, **OPTIONS)
    made = es.sample(log_likelihood, PRIOR, executor=pool, **OPTIONS)
    assert made.attrs["engine"] == alone.attrs["engine"]
    np.testing.assert_array_equal(made.posterior.f, alone.posterior.f)


def test_any_function_goes_to_loky():
    loky = pytest.importorskip("joblib.externals.loky")
    shift = 0.3
    log_likelihood = lambda f: -float(np.square(np.asarray(f) - shift).sum())  # noqa: E731
    alone = es.sample(log_likelihood, PRIOR, **OPTIONS)
    made = es.sample(log_likelihood, PRIOR, executor=partial(loky.get_reusable_executor, 1), **OPTIONS)
    np.testing.assert_array_equal(made.posterior.f, alone.posterior.f)


# --- rejected before the run ----------------------------------------------------------------------------------------


def test_what_cannot_be_sent_is_named(pool):
    with pytest.raises(TypeError, match=r"the log-likelihood, <function .*lambda.* cannot be sent .* def at the top"):
        es.sample(lambda f: bowl(f), PRIOR, executor=pool, **OPTIONS)
    routine = es.FromDraws(lambda rng: rng.standard_normal(8), 8)
    with pytest.raises(TypeError, match="the prior, FromDraws"):
        es.sample(bowl, routine, executor=pool, **OPTIONS)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"executor": 4}, TypeError, "with a method submit, .* but it is 4"),
        ({"executor": ProcessPoolExecutor}, TypeError, "Make an instance of it"),
        ({"executor": lambda: 3}, TypeError, "returned 3, which has no method submit"),
        ({"timeout": 3}, ValueError, "timeout=3 was given, but no executor"),
        ({"executor": Pickled(), "timeout": 0}, ValueError, "positive number of seconds, but it is 0"),
        ({"executor": Pickled(), "engine": "batched"}, ValueError, 'engine="batched" and executor were both given'),
        ({"executor": Pickled(), "precision": "single"}, ValueError, 'precision="single" and executor were both given'),
        ({"executor": Pickled(), "look_ahead": 4, "move": es.moves.LineSlice()}, ValueError, "is not a single search"),
    ],
)
def test_bad_input(options, error, message):
    with pytest.raises(error, match=message):
        es.sample(bowl, PRIOR, **OPTIONS, **options)


def test_a_client_is_not_an_executor():
    class Client:
        def submit(self, function, *arguments):
            return "a future of its own"

        def get_executor(self): ...

    with pytest.raises(TypeError, match=r"client.get_executor\(\)"):
        es.sample(bowl, PRIOR, executor=Client(), **OPTIONS)


def test_other_data_in_the_workers_are_noticed():
    def differs(f):
        return bowl(f) + (threading.current_thread() is not threading.main_thread())

    with ThreadPoolExecutor(1) as threads, pytest.raises(ValueError, match="a worker of the executor computed"):
        es.sample(differs, PRIOR, executor=threads, engine="host", **OPTIONS)


# --- during the run -------------------------------------------------------------------------------------------------


def test_an_exception_comes_back_with_its_latents():
    def fails(f):
        if bowl(f) > -8.0:
            raise ZeroDivisionError("a simulator broke down")
        return bowl(f)

    with ThreadPoolExecutor(2) as threads, pytest.raises(ZeroDivisionError, match="simulator") as caught:
        es.sample(fails, PRIOR, executor=threads, engine="host", initial=np.full(8, 3.0), **OPTIONS)
    assert bowl(caught.value.latents["f"]) > -8.0
    assert "raised by the log-likelihood at f = " in caught.value.__notes__[0]


def test_an_exception_that_cannot_travel_is_put_into_words(monkeypatch):
    """The exception would break a process pool. (Some libraries make every exception picklable.)"""

    def trouble(number):
        if number == 6:
            monkeypatch.setenv("ELLIPSLICE_TEST_AWKWARD", "1")

    with pytest.raises((RuntimeError, AwkwardError), match="broken at home"):
        es.sample(awkward, PRIOR, executor=Pickled(trouble), engine="host", **OPTIONS)


@pytest.mark.long
def test_a_broken_pool_says_what_to_do_and_keeps_the_draws(monkeypatch):
    monkeypatch.setattr(workers_engine, "TASK_SECONDS", 0.2)
    with processes(1) as pool:
        es.sample(bowl, PRIOR, executor=pool, **OPTIONS)
        (worker,) = pool._processes.values()
        threading.Timer(6.0, worker.kill).start()  # late enough for some draws on a busy machine
        with pytest.raises(es.WorkersLostError, match=r"executor=lambda: ProcessPool") as caught:
            es.sample(slow_bowl, PRIOR, executor=pool, **{**OPTIONS, "draws": 10**5})
    assert "in the attribute `tree` of this exception" in caught.value.__notes__[0]
    tree = caught.value.tree
    made = tree.posterior.sizes["draw"]
    assert made > 10
    alone = es.sample(bowl, PRIOR, **{**OPTIONS, "draws": made})
    np.testing.assert_array_equal(tree.posterior.f, alone.posterior.f)


@pytest.mark.long
def test_a_broken_pool_leaves_a_store_to_go_on_with(tmp_path, monkeypatch):
    pytest.importorskip("zarr")
    monkeypatch.setattr(workers_engine, "TASK_SECONDS", 0.0)

    def breaks_down(number):
        if number > 40:
            raise BrokenProcessPool

    path = tmp_path / "run.zarr"
    with pytest.raises(es.WorkersLostError) as caught:
        es.sample(bowl, PRIOR, executor=Pickled(breaks_down), store=path, **OPTIONS)
    assert (
        "draws of each chain are in the store. To continue the run, call ellipslice.resume("
        in caught.value.__notes__[0]
    )
    made = es.resume(path, bowl, executor=Pickled(), progress=False)
    np.testing.assert_array_equal(made.posterior.f, es.sample(bowl, PRIOR, **OPTIONS).posterior.f)


@pytest.mark.long
def test_a_pool_that_can_be_made_anew_goes_on(tmp_path):
    alone = es.sample(bowl, PRIOR, **OPTIONS)
    (tmp_path / "first").touch()
    log_likelihood = partial(deadly, tmp_path, os.getpid())
    made = es.sample(log_likelihood, PRIOR, executor=processes, engine="host", **OPTIONS)
    assert not list(tmp_path.iterdir())
    np.testing.assert_array_equal(made.posterior.f, alone.posterior.f)


def test_work_that_kills_every_worker_is_given_up(monkeypatch):
    monkeypatch.setattr(workers_engine, "TASK_SECONDS", 0.0)
    pools = []

    def breaks_down(number):
        if len(pools) > 1 or number > 10:
            raise BrokenProcessPool

    def make():
        pools.append(Pickled(breaks_down))
        return pools[-1]

    with pytest.raises(es.WorkersLostError, match=r"lost 4 times over the same task: chain \d from update") as e:
        es.sample(bowl, PRIOR, executor=make, **OPTIONS)
    assert len(pools) == 5
    assert "import the log-likelihood" not in str(e.value)


def test_workers_that_cannot_start_are_told_from_others_that_die():
    def breaks_down(number):
        raise BrokenProcessPool

    with pytest.raises(es.WorkersLostError, match=r"No task has succeeded so far\. Check that the workers can start"):
        es.sample(bowl, PRIOR, executor=Pickled(breaks_down), **OPTIONS)


@pytest.mark.long
def test_a_script_without_its_guard(tmp_path):
    """A common mistake: the workers import the script, and begin to run it."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(WITHOUT_GUARD))
    said = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment(), timeout=60)
    assert "needs `if __name__ == '__main__':` around it" in said.stderr.splitlines()[-1]


WITHOUT_GUARD = """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context
    import ellipslice as es
    from farmed import PRIOR, bowl

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        es.sample(bowl, PRIOR, draws=5, executor=pool, progress=False)
"""


def environment():
    root = Path(__file__).parents[2]
    return {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": f"{root / 'src'}:{root / 'tests'}"}


@pytest.mark.long
def test_a_hanging_likelihood_ends_with_an_error():
    log_likelihood = partial(hangs_now_and_then, os.getpid())
    options = {**OPTIONS, "engine": "host", "initial": np.full(8, 3.0)}
    began = time.perf_counter()
    with pytest.raises(TimeoutError, match=r"no worker has answered for \d s, and timeout=9.*chain \d from update"):
        es.sample(log_likelihood, PRIOR, executor=processes, timeout=9, **options)  # workers take seconds to start
    assert time.perf_counter() - began < 30


# --- Ctrl-C ---------------------------------------------------------------------------------------------------------

RETURN_SECONDS = 20
"""Largest time from Ctrl-C to the result, which is below 3 s on a quiet machine. The whole run takes half an hour."""

PROGRAM = """
    import json, os, sys, time, warnings
    from concurrent.futures import ProcessPoolExecutor
    import numpy as np
    import ellipslice as es
    from farmed import slow_bowl, PRIOR

    def keep(f):
        keep.count += 1
        if keep.count == 20:
            print("sampling", flush=True)
        return f

    keep.count = 0
    if __name__ == "__main__":
        with warnings.catch_warnings(record=True) as caught, ProcessPoolExecutor(2) as pool:
            warnings.simplefilter("always")
            options = dict(warmup=2, chains=2, seed=5, progress=False, keep=keep, **json.loads(sys.argv[1]))
            tree = es.sample(slow_bowl, PRIOR, draws=100_000, executor=pool, **options)
            ended = time.time()
        attrs = {k: tree.attrs[k] for k in ("engine", "draws", "interrupted")}
        print(json.dumps({"ended": ended, "attrs": attrs, "f": tree.posterior.f.values.tolist(),
                          "warnings": [str(w.message) for w in caught]}))
"""


@pytest.mark.long
@pytest.mark.parametrize(("whom", "options"), [("us alone", {}), ("workers too", {"look_ahead": 3})])
def test_ctrl_c(whom, options, tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "program.py"), json.dumps(options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment(),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "sampling\n"
        pressed = time.time()
        if whom == "us alone":
            process.send_signal(signal.SIGINT)
        else:
            os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    said = json.loads(output)
    assert said["attrs"]["interrupted"] == 1
    assert said["ended"] - pressed < RETURN_SECONDS
    assert any("stopped by Ctrl-C" in warning for warning in said["warnings"])
    alone = es.sample(bowl, PRIOR, draws=said["attrs"]["draws"], warmup=2, chains=2, seed=5, progress=False)
    np.testing.assert_array_equal(np.array(said["f"]), alone.posterior.f)

"""The XLA setting: requested in time, too late, twice, and with other settings. Memory that is kept for reuse."""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import sys
import textwrap

import pytest

import ellipslice as es
from ellipslice.undocumented import memory


def run(code: str, flags: str = "") -> str:
    process = subprocess.run(
        [sys.executable, "-W", "always", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "XLA_FLAGS": flags},
    )
    assert process.returncode == 0, process.stderr
    return process.stdout + process.stderr


SHOW = "import os; print(os.environ.get('XLA_FLAGS', ''))"


@pytest.mark.long
def test_an_import_sets_nothing():
    assert run(f"import ellipslice; {SHOW}").strip() == ""


@pytest.mark.long
def test_in_time():
    output = run(f"import ellipslice as es; es.fast_cpu(); es.fast_cpu(); {SHOW}")
    assert output.strip() == "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1000000000"


@pytest.mark.long
def test_beside_other_settings():
    other = "--xla_cpu_enable_fast_math=false --xla_backend_extra_options=some_option=1"
    output = run(f"import ellipslice as es; es.fast_cpu(); {SHOW}", other)
    assert output.split() == [
        "--xla_cpu_enable_fast_math=false",
        "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1000000000,some_option=1",
    ]


def test_it_takes_effect_and_runs():
    output = run("""
        import ellipslice as es
        es.fast_cpu()
        import numpy as np
        tree = es.sample(es.likelihoods.Poisson([1, 2, 3]), es.Diagonal(np.ones(3)), draws=20, seed=1)
        print(tree.posterior.f.shape)
    """)
    assert "(4, 20, 3)" in output


@pytest.mark.long
def test_too_late():
    output = run(f"import jax; jax.numpy.ones(3); import ellipslice as es; es.fast_cpu(); {SHOW}")
    assert "fast_cpu() comes too late for XLA" in output
    assert output.splitlines()[0] == ""  # nothing was set


PAGE_FAULTS = """
    import resource, threading
    import numpy as np
    import ellipslice as es

    def work():
        for _ in range(20):
            arrays = [np.ones(2**20) for _ in range(3)]
            del arrays

    def faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    before = faults()
    es.fast_cpu()
    faults()
    print(before, faults())
"""


def has_mallopt() -> bool:
    return sys.platform == "linux" and hasattr(ctypes.CDLL(None), "mallopt")


@pytest.mark.short_cases("False")
@pytest.mark.skipif(not has_mallopt(), reason="only glibc can be told")
@pytest.mark.parametrize("late", [False, True])
def test_memory_is_kept_in_time_or_late(late):
    """After three arrays of 8 MB are made and freed repeatedly, no more memory is requested from the system."""
    started = "import jax; jax.numpy.ones(3)\n" if late else ""
    before, after = map(int, run(started + textwrap.dedent(PAGE_FAULTS)).splitlines()[0].split())
    assert after < before / 10


DRAWS_AGAIN = """
    import resource
    import numpy as np, ellipslice as es

    def faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        tree = es.sample(es.likelihoods.Gaussian(np.ones(500), 0.5), es.Diagonal(np.ones(500)), draws=40_000, warmup=0,
                         chains=1, seed=1, progress=False)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    %s
    faults()
    print(min(faults() for _ in range(3)))
"""


@pytest.mark.long
@pytest.mark.skipif(not has_mallopt(), reason="only there is it kept")
def test_memory_of_draws_that_were_let_go_is_used_again():
    """160 MB of draws, which are 40,000 pages, use memory that was freed before."""
    plain, kept = (int(run(DRAWS_AGAIN % first)) for first in ("", "es.fast_cpu()"))
    assert kept < plain - 30_000


def test_where_memory_cannot_be_kept_nothing_happens(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", importlib.import_module("ellipslice.fast_cpu").SETTING)
    monkeypatch.setattr(memory, "_kept_memory", 0)  # monkeypatch restores it afterwards
    for said in ("the system has no mallopt", None):  # musl, and systems other than Linux
        monkeypatch.setattr(memory, "_mallopt", lambda said=said: said)
        es.fast_cpu()


def test_matrix_products_leave_room_for_the_chains_and_get_it_back():
    import numpy as np  # noqa: F401  loads the library whose threads are counted
    import threadpoolctl

    from ellipslice.engines.threads import limit_blas_threads
    from ellipslice.machine import available_cores

    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    with limit_blas_threads(available_cores()):
        assert set(threads()) <= {1}
    with limit_blas_threads(1):
        assert set(threads()) <= {max(1, available_cores() - 1)}
    assert threads() == before


def test_a_process_can_be_told_to_use_fewer_cores(monkeypatch):
    from ellipslice import machine

    monkeypatch.setattr(machine, "_core_limit", [])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 5}, raising=False)
    assert machine.available_cores() == 3
    machine.use_cores(2)
    assert machine.available_cores() == 2
    machine.use_cores(8)
    assert machine.available_cores() == 3

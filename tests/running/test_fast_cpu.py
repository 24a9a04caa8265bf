"""The XLA setting: asked for in time, too late, twice, beside other settings."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap


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


def test_an_import_sets_nothing():
    assert run(f"import ellipslice; {SHOW}").strip() == ""


def test_in_time():
    output = run(f"import ellipslice as es; es.fast_cpu(); es.fast_cpu(); {SHOW}")
    assert output.strip() == "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1000000000"


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


def test_too_late():
    output = run(f"import jax; jax.numpy.ones(3); import ellipslice as es; es.fast_cpu(); {SHOW}")
    assert "fast_cpu() comes too late" in output
    assert output.splitlines()[0] == ""  # nothing was set


def test_matrix_products_leave_room_for_the_chains_and_get_it_back():
    import numpy as np  # noqa: F401  loads the library whose threads are counted
    import threadpoolctl

    from ellipslice.engines.threads import blas_beside, cores

    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    with blas_beside(cores()):
        assert set(threads()) <= {1}
    with blas_beside(1):
        assert set(threads()) <= {max(1, cores() - 1)}
    assert threads() == before


def test_a_process_can_be_told_to_use_fewer_cores(monkeypatch):
    from ellipslice.engines import threads

    monkeypatch.setattr(threads, "_limit", [])
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _: {0, 2, 5}, raising=False)
    assert threads.cores() == 3
    threads.use_cores(2)
    assert threads.cores() == 2
    threads.use_cores(8)
    assert threads.cores() == 3

"""Each undocumented internal of another library works with the installed versions.

If one fails, the library uses a fallback. Find out what changed, and repair or remove the item.
"""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from ellipslice.jax_settings import jax_settings, on_cpu
from ellipslice.undocumented import ITEMS, blas, degraded, gpu_graph, jaxprs, operations, registry, runtime, xla_loop


@pytest.fixture(autouse=True)
def nothing_taken(monkeypatch):
    monkeypatch.setattr(registry, "_taken", {})


@pytest.mark.parametrize("item", ITEMS)
def test_no_fallback_is_taken(item):
    assert ITEMS[item]() is None


@pytest.mark.long
def test_the_table_says_so():
    found = subprocess.run(
        [sys.executable, "-m", "ellipslice.undocumented"], capture_output=True, text=True, check=True
    )
    head, *lines = found.stdout.splitlines()
    assert head == f"JAX {jax.__version__}"
    assert [line.split("  ")[0].strip() for line in lines] == list(ITEMS)
    assert all(line.endswith("  works") for line in lines)


# --- loops as one function ---


def count(start, stop, step):
    return jax.lax.fori_loop(0, 10, lambda i, x: x + jnp.sin(step * i) * start, stop)


def test_a_loop_is_compiled_into_one_function_with_wide_vectors():
    with on_cpu():
        arguments = (np.ones(8), np.zeros(8)), {"step": np.float64(2.0)}
        found, way = xla_loop.run_loop(xla_loop.WIDE, loop, (3,), *arguments)
        plain, _ = xla_loop.run_loop(xla_loop.PLAIN, loop, (3,), *arguments)
        text = xla_loop._COMPILED[xla_loop.WIDE].lower(loop, (3,), *arguments).compile().as_text()
    assert way == xla_loop.WIDE
    assert registry.taken() == []
    assert re.search(r'xla_cpu_small_call="?true', text)
    np.testing.assert_allclose(found, plain, rtol=1e-14)


def loop(power, vectors, more):
    return count(*vectors, more["step"]) ** power


@pytest.mark.parametrize(
    ("broken", "left", "noted"),
    [
        ((xla_loop.WIDE,), xla_loop.MARKED, [xla_loop.VECTORS]),
        ((xla_loop.WIDE, xla_loop.MARKED), xla_loop.PLAIN, [xla_loop.ITEM, xla_loop.VECTORS]),
    ],
)
def test_first_the_option_is_left_out_and_then_the_marks(monkeypatch, broken, left, noted):
    def breaks_down(*arguments):
        raise jax.errors.JaxRuntimeError("INTERNAL: over it; all of it")

    for way in broken:
        monkeypatch.setitem(xla_loop._COMPILED, way, breaks_down)
    monkeypatch.setitem(xla_loop._COMPILED, left, lambda loop, static, *arguments: ("made", None))
    assert xla_loop.run_loop(xla_loop.WIDE, loop, ()) == ("made", left)
    assert [text.split(":")[0] for text in registry.taken()] == noted
    assert all("INTERNAL: over it, all of it" in text for text in registry.taken())


def test_an_error_of_the_loop_itself_is_raised_and_blamed_on_nothing(monkeypatch):
    def breaks_down(*arguments):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED")

    for way in xla_loop._COMPILED:
        monkeypatch.setitem(xla_loop._COMPILED, way, breaks_down)
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        xla_loop.run_loop(xla_loop.WIDE, loop, ())
    assert registry.taken() == []


# --- programs ---


def names(function, size):
    with jax_settings():
        program = jaxprs.read(function, jax.ShapeDtypeStruct((size,), np.float64))
    return {jaxprs.called_name(equation) for equation in jaxprs.equations(program) if jaxprs.parts(equation)}


def test_functions_are_known_by_their_names():
    assert any(name.startswith(jaxprs.SOFTPLUS) for name in names(es.likelihoods.Logistic([1, -1]), 2))
    assert "logaddexp" in names(lambda f: jnp.logaddexp(0.0, f).sum(), 2)


def test_a_jitted_function_is_opened():
    def function(f):
        return f.sum()

    assert jaxprs.plain(jax.jit(function)) is function
    assert jaxprs.plain(function) is function


def test_what_is_batched_calls_no_library():
    """The compiled program calls only XLA's own functions, which do not wait in its threads."""

    def everything(f):
        parts = [f[np.array([1, 0, 0])], jnp.sort(f), jnp.cumsum(f), jnp.abs(jnp.fft.fft(f)), jnp.ones((3, 3)) @ f]
        parts += [f.at[np.array([0, 0])].add(1.0), jax.scipy.special.digamma(f), jnp.argmax(f), jnp.roll(f, 1)]
        parts += [jax.scipy.special.betainc(f, 2.0, 0.5), jax.lax.top_k(f, 2)[0], jax.scipy.special.gammainc(f, f)]
        return sum(jnp.sum(part) for part in parts)

    with on_cpu():
        assert jaxprs.operations(jaxprs.read(everything, np.ones(3))) <= operations.COMPILED
        text = jax.jit(everything).lower(np.ones(3)).compile().as_text()
    assert set(re.findall(r'custom_call_target="(\w+)"', text)) <= {"TopK"}


# --- BLAS, JAX's state, executors ---


def test_triangular_products_are_the_same_each_way(monkeypatch):
    z, rows = np.random.default_rng(0).standard_normal((3, 5)), np.triu(np.random.default_rng(1).random((5, 5)))
    expected = z @ rows
    ways = [blas.times_triangular, blas._without_capsule]
    for times in ways:
        found = z.copy()
        times(found, rows)
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert registry.taken() == []
    monkeypatch.setitem(sys.modules, "scipy.linalg.blas", None)
    found = z.copy()
    blas._without_capsule(found, rows)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_whether_jax_has_started_is_known_or_perhaps(monkeypatch):
    jnp.ones(1).block_until_ready()
    assert runtime.has_started() is True
    monkeypatch.delattr("jax._src.xla_bridge.backends_are_initialized")
    assert runtime.has_started() is None
    assert [text.split(":")[0] for text in registry.taken()] == [runtime.STARTED]
    assert any(text.startswith(runtime.STARTED) for text in degraded())
    fast_cpu = sys.modules["ellipslice.fast_cpu"]
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.setattr(fast_cpu, "keep_memory", lambda: None)
    with pytest.warns(UserWarning, match="cannot determine whether it comes in time"):
        es.fast_cpu()


def test_the_chosen_device_and_the_devices_themselves():
    assert not runtime.device_is_chosen()
    with jax.default_device(jax.devices("cpu")[0]):
        assert runtime.device_is_chosen()
    for strange in (object(), None):
        assert runtime.memory_limit(strange) is None
        assert runtime.compute_capability(strange) == 0.0


def test_workers_are_counted():
    with ThreadPoolExecutor(3) as pool:
        assert runtime.worker_count(pool) == 3
    with ProcessPoolExecutor(2) as pool:
        assert runtime.worker_count(pool) == 2
        assert runtime.processes(pool) == []  # no thread is started yet
    assert runtime.worker_count(object()) is None
    assert runtime.processes(object()) == []


# --- loops in GPU graphs ----------------------------------------------------------------------------------------------


def double(times, x):
    """Double x in a loop whose length is data."""
    return jax.lax.while_loop(lambda carry: carry[0] < times * 1, lambda carry: (carry[0] + 1, 2 * carry[1]), (0, x))[1]


def test_xla_accepts_the_option_for_loops_in_gpu_graphs():
    """It ignores the option on a CPU, but raises if the value is wrong. `tests/gpu` tests its effect."""
    loop = jax.jit(double, static_argnums=0, compiler_options=gpu_graph.LOOPS_IN_GRAPHS)
    assert loop(3, 1.0) == 8.0


def test_a_program_whose_loops_cannot_be_in_gpu_graphs_is_compiled_without_them(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(gpu_graph, "_failures", [])
    monkeypatch.setattr(gpu_graph, "LOOPS_IN_GRAPHS", {"xla_gpu_enable_command_buffer": "NO_SUCH_OPERATION"})
    assert gpu_graph.with_loops_in_graphs(double)(3, 1.0) == 8.0
    assert "NO_SUCH_OPERATION" in gpu_graph.probe()
    assert any(text.startswith(gpu_graph.ITEM) for text in registry.taken())

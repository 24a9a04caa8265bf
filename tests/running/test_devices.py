"""Several devices and several processes of JAX give the same draws."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from ellipslice.sampling.arguments import chain_indices

ROOT = Path(__file__).parents[2]

MODEL = """
    import sys
    import jax, jax.numpy as jnp, numpy as np
    import ellipslice as es

    x = np.arange(30)
    PRIOR = es.Dense(np.exp(-0.5 * np.subtract.outer(x, x) ** 2 / 9) + 0.1 * np.eye(30), mean=0.1)
    OPTIONS = {"move": es.moves.EllipticalSlice(), "draws": 50, "warmup": 9, "seed": 3, "progress": False}

    def log_likelihood(f):
        return -2.0 * jnp.sum((f - jnp.sin(x / 5)) ** 2)

    def sampled(engine, chains=8):
        return es.sample(log_likelihood, PRIOR, engine=engine, chains=chains, **OPTIONS).posterior.f.values
"""

EIGHT_DEVICES = """
    import re
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    from ellipslice.engines.device import engine as batched
    from ellipslice.engines.compiled import CompiledEngine, search
    from ellipslice.posterior import Posterior
    from ellipslice.jax_settings import on_cpu

    assert jax.local_device_count() == 8
    used = []
    make_mesh = batched.chains_over_devices
    batched.chains_over_devices = lambda chains: used.append(make_mesh(chains)) or used[-1]
    found = {"compiled": sampled("compiled"), "batched": sampled("batched", 12)}
    found["devices"] = [mesh.size for mesh in used]

    # Data over all devices.
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((8 * 1000, 30)), rng.standard_normal(8 * 1000)
    over = NamedSharding(Mesh(jax.devices(), "rows"), PartitionSpec("rows"))

    def regression(A, y):
        return jax.jit(lambda f: -0.001 * jnp.sum((y - A @ f) ** 2))

    with jax.enable_x64(True):
        shared = regression(jax.device_put(A, over), jax.device_put(y, over))
    engine = CompiledEngine(Posterior(PRIOR, shared))
    with on_cpu():
        text = search.evaluate.lower(engine._likelihood, np.zeros(30)).compile().as_text()
    found["sent"] = re.findall(r"= (f64\\S*) (?:all|collective)-[a-z]+\\(", text)
    found["largest"] = max(int(rows) for rows in re.findall(r"f64\\[([0-9]+),", text))
    for engine in ("compiled", "batched"):
        one, other = (
            es.sample(function, PRIOR, engine=engine, chains=3, **OPTIONS).posterior.f.values
            for function in (shared, regression(A, y))
        )
        found[f"data, {engine}"] = np.abs(one - other).max()
    np.savez(sys.argv[1], **found)
"""


def start(program, *arguments, flags=""):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, "PYTHONPATH": str(ROOT / "src")}
    source = textwrap.dedent(MODEL) + textwrap.dedent(program)
    return subprocess.Popen([sys.executable, "-c", source, *map(str, arguments)], env=environment)


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    path = tmp_path_factory.mktemp("devices") / "found.npz"
    assert start(EIGHT_DEVICES, path, flags="--xla_force_host_platform_device_count=8").wait(timeout=240) == 0
    return np.load(path)


@pytest.fixture(scope="module")
def model():
    namespace: dict = {}
    exec(textwrap.dedent(MODEL), namespace)
    return namespace


@pytest.mark.long
@pytest.mark.parametrize(("engine", "chains"), [("compiled", 8), ("batched", 12)])
def test_the_number_of_devices_does_not_matter(engine, chains, eight, model):
    """The batched engine gives the same draws up to rounding error, and the others bit-identical ones."""
    alone = model["sampled"](engine, chains)
    np.testing.assert_allclose(eight[engine], alone, rtol=0, atol=0 if engine == "compiled" else 1e-9)


@pytest.mark.long
def test_devices_have_equal_parts_of_the_chains(eight):
    """Twelve chains on eight devices: six of the devices run two each."""
    assert eight["devices"].tolist() == [6]


@pytest.mark.long
def test_data_over_all_devices(eight):
    """An evaluation transfers one number, and each device has only its own thousand rows."""
    assert eight["sent"].tolist() == ["f64[]"]
    assert eight["largest"] == 1000
    assert eight["data, compiled"] < 1e-9
    assert eight["data, batched"] < 1e-9


# --- several processes ----------------------------------------------------------------------------------------------

TWO_PROCESSES = """
    address, number, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    jax.distributed.initialize(address, num_processes=2, process_id=number)
    assert jax.process_count() == 2
    es.sample(log_likelihood, PRIOR, engine="batched", chains=5, store=f"{folder}/{number}.zarr", **OPTIONS)
    try:
        es.sample(log_likelihood, PRIOR, chains=1, **OPTIONS)
    except ValueError as error:
        assert "runs 2 processes, among which the chains are" in str(error)
    else:
        raise SystemExit("one chain was shared by two processes")
"""


@pytest.mark.long
def test_processes_share_the_chains(model, tmp_path):
    pytest.importorskip("zarr")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    processes = [start(TWO_PROCESSES, address, number, tmp_path) for number in range(2)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    whole = es.join([tmp_path / "1.zarr", tmp_path / "0.zarr"])
    assert whole.posterior.chain.values.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(whole.posterior.f, model["sampled"]("batched", 5), rtol=0, atol=1e-9)
    assert whole.attrs["updates"] == 5 * 59
    assert whole.attrs["chains"] == 5


def log_likelihood(f):
    return -jnp.sum((f - 1.0) ** 2)


@pytest.mark.parametrize(("processes", "chains"), [(2, 5), (3, 3), (4, 64), (7, 10)])
def test_every_chain_has_one_process(processes, chains, monkeypatch):
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(jax, "process_count", lambda: processes)
    shares = []
    for process in range(processes):
        monkeypatch.setattr(jax, "process_index", lambda process=process: process)
        shares.append(chain_indices(chains))
        # Chain indices that are given explicitly are not divided among processes.
        assert chain_indices([1, 3]) == (1, 3)
    assert sum(shares, ()) == tuple(range(chains))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_processes_tune_alike(monkeypatch):
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    options = {"draws": 60, "warmup": 20, "step_sizes": [0.1, 0.4, 0.8], "chains": 1, "seed": 1}
    found = []
    for process in range(2):
        monkeypatch.setattr(jax, "process_index", lambda process=process: process)
        tuned = es.tune_step(es.moves.NealMetropolis, log_likelihood, es.Diagonal(np.ones(3)), **options)
        found.append(tuned.effective_sample_sizes)
    np.testing.assert_array_equal(*found)


def part(chains, **options):
    options = {"draws": 20, "warmup": 5, "seed": 1, "progress": False, **options}
    return es.sample(log_likelihood, es.Diagonal(np.ones(3)), chains=chains, **options)


def test_join_is_the_whole_run():
    whole, joined = part(4), es.join([part([2, 3]), part([1]), part([0], draws=25)])
    for group in ("posterior", "sample_stats"):
        assert whole[group].to_dataset().drop_attrs().identical(joined[group].to_dataset().drop_attrs())
    assert joined.attrs.keys() == whole.attrs.keys()
    assert joined.attrs["draws"] == 20
    assert str(es.diagnostics.check_convergence(joined))


def test_what_cannot_be_joined():
    with pytest.raises(ValueError, match="seed = 2, but the first with 1"):
        es.join([part([0]), part([1], seed=2)])
    with pytest.raises(ValueError, match="chain 1 is in more than one part"):
        es.join([part([0, 1]), part([1])])
    with pytest.raises(ValueError, match=r"part 1 .* is not a result of `sample`: it has no attribute seed"):
        es.join([part([0]), part([1]).posterior.to_dataset().pipe(lambda found: type(part([1]))(found))])
    with pytest.raises(ValueError, match="an empty list"):
        es.join([])
    with pytest.raises(TypeError, match="requires a list of results"):
        es.join("run.zarr")

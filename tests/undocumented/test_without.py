"""Without each internal, in a separate process, everything works, gives the same result and reports the fallback."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ellipslice as es
from ellipslice.undocumented import jaxprs, xla_loop

INTERNALS = {
    "jax.extend.core": "reading programs",
    "jax.experimental.xla_metadata": "loops as one function",
    "scipy.linalg.cython_blas": "triangular products",
    "ctypes": "triangular products",
    "mmap": "small pages",
    "jax._src.compilation_cache": "compiled programs on disk",
}

RUN = """
import json, sys
import jax, numpy, scipy.linalg, xarray, arviz_stats, h5netcdf, threadpoolctl, rich  # they may need what is taken away
gone = sys.argv[1].split(",")
for name in gone:
    package, _, last = name.rpartition(".")
    if package and hasattr(sys.modules.get(package), last):
        delattr(sys.modules[package], last)
    sys.modules[name] = None
import jax.numpy as jnp, numpy as np
import ellipslice as es

prior = es.Dense(np.exp(-0.5 * np.abs(np.subtract.outer(np.arange(8.0), np.arange(8.0)))))
y = np.arange(8) % 3
own = lambda f: jnp.sum(y * f - jnp.exp(f))
step = es.step(np.zeros(8), np.ones(8), lambda f: -np.sum(f**2), rng=np.random.default_rng(0))
# The default move depends on what can be read from the program.
options = dict(move=es.moves.EllipticalSlice(), draws=20, warmup=0, chains=2, seed=1, progress=False)
found = {"step": np.asarray(step[0]).tolist()}
for name, likelihood, engine in (
    ("host", own, "host"), ("own", own, "compiled"), ("Poisson", es.likelihoods.Poisson(y), "compiled")
):
    tree = es.sample(likelihood, prior, engine=engine, **options)
    found[name] = [tree.posterior.f.values.tolist(), tree.attrs.get("degraded", "")]
wide = es.sample(es.likelihoods.Gaussian(np.ones(600), 1.0), es.Diagonal(np.ones(600)), engine="compiled",
                 **{**options, "draws": 1000, "chains": 1})
found["wide"] = [wide.posterior.f.values[..., :2, :].tolist(), wide.attrs.get("degraded", "")]
if any(sys.modules[name] is not None for name in gone):
    raise SystemExit("it came back")
print(json.dumps(found))
"""


def run(*gone):
    found = subprocess.run([sys.executable, "-c", RUN, ",".join(gone)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@pytest.fixture(scope="module")
def usual():
    return run("a module that nobody has")


def same(found, usual):
    for name in usual:
        np.testing.assert_allclose(
            *(np.array(one[name] if name == "step" else one[name][0]) for one in (found, usual)), rtol=1e-6, atol=1e-9
        )


@pytest.mark.long
def test_without_any_of_them(usual):
    assert not any(value[1] for name, value in usual.items() if name != "step")
    found = run(*INTERNALS)
    same(found, usual)
    for name in ("own", "Poisson"):  # a loop of a program that cannot be read is never compiled as one function
        assert "reading programs: jax.extend.core has changed" in found[name][1]
        assert "triangular products: scipy.linalg.cython_blas has changed" in found[name][1]


@pytest.mark.long
@pytest.mark.parametrize("name", INTERNALS)
def test_without_one_of_them(usual, name):
    found = run(name)
    same(found, usual)
    said = {item for one in ("host", "own", "Poisson", "wide") for item in INTERNALS.values() if item in found[one][1]}
    assert said == {INTERNALS[name]} or (sys.platform != "linux" and name == "mmap")


@pytest.mark.long
def test_importing_the_library_imports_none_of_them():
    ours = ["jax.extend.core", "jax.experimental.xla_metadata", "scipy.linalg.cython_blas"]
    code = "import sys, jax, scipy.linalg; before = set(sys.modules); import ellipslice, ellipslice.engines.choose\n"
    code += f"print([name for name in {ours} if name in set(sys.modules) - before])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


FORBIDDEN = ("jax._src", "jax.extend", "jax.experimental.xla_metadata", "scipy.linalg.cython_blas", "ctypes", "mmap")


def test_nothing_else_imports_them():
    """Import-linter checks only the top-level name of a package, and ruff's rule can be disabled by a comment."""
    root = Path(es.__file__).parent
    for path in root.rglob("*.py"):
        if path.parent == root / "undocumented":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            bad = [name for name in names for one in FORBIDDEN if name == one or name.startswith(f"{one}.")]
            assert not bad, f"{path} imports {bad}"


def test_what_is_gone_is_described(monkeypatch):
    jaxprs.core.cache_clear()
    xla_loop._set_marks.cache_clear()
    monkeypatch.setitem(sys.modules, "jax.experimental.xla_metadata", None)
    try:
        assert "xla_metadata has changed (ModuleNotFoundError" in str(xla_loop.probe())
    finally:
        jaxprs.core.cache_clear()
        xla_loop._set_marks.cache_clear()

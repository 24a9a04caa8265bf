"""The applications use public names of the library, and the few others that are listed here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from layout import public_names

PUBLIC = public_names.documented()
APPS = public_names.ROOT / "src" / "ellipslice" / "apps"

# Internal names that they use today. Remove a name when it is no longer used, and add none.
INTERNAL = {
    "ellipslice.engines.base.Checkpoint",
    "ellipslice.engines.base.RunSpec",
    "ellipslice.engines.device.engine.BatchedEngine",
    "ellipslice.engines.device.engine.FusedEngine",
    "ellipslice.engines.device.engine.block_length",
    "ellipslice.engines.compiled.CompiledEngine",
    "ellipslice.engines.device.prior_draws.Source",
    "ellipslice.engines.device.noise.chain_keys",
    "ellipslice.engines.device.noise.update_keys",
    "ellipslice.engines.threads.limit_blas_threads",
    "ellipslice.gp.structure.MAX_DENSE_BY_CHOICE",
    "ellipslice.gp.structure.MAX_DENSE",
    "ellipslice.gp.structure.is_grid",
    "ellipslice.likelihoods.REGISTERED",
    "ellipslice.likelihoods.command.Command",
    "ellipslice.machine.available_cores",
    "ellipslice.machine.commit",
    "ellipslice.machine.machine",
    "ellipslice.machine.use_cores",
    "ellipslice.machine.version",
    "ellipslice.noise.block_length",
    "ellipslice.posterior.Posterior",
    "ellipslice.approximations.fit_reference",
    "ellipslice.store.journal.replace",
    "ellipslice.sampling.initial_states.prior_starts",
    # `ellipslice bench --choice` measures kicks with the number that the library tunes.
    "ellipslice.sampling.initial_states.reference_starts",
    "ellipslice.sampling.kick_pilot.KickPilot",
    "ellipslice.store.create.check_free",
    "ellipslice.sampling.until.Until",
    "ellipslice.jax_settings.jax_settings",
    "ellipslice.undocumented.ITEMS",
    "ellipslice.undocumented.degraded",
}


def imported(text: str) -> Iterator[str]:
    """Yield the names of the library that a file imports, or reads as `es.name`, except names of the applications."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name != "ellipslice"]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            written = ast.unparse(node)
            names = [f"ellipslice{written[2:]}"] if written.startswith("es.") else []
        else:
            continue
        yield from (name for name in names if name.startswith("ellipslice.") and ".apps." not in name)


def used() -> set[str]:
    return {name for path in sorted(APPS.rglob("*.py")) for name in imported(path.read_text(encoding="utf8"))}


def is_public(name: str) -> bool:
    """Return whether the reference pages list a name, a part of it, or the object that it is an attribute of."""
    return any(f"{name}.".startswith(f"{each}.") or each.startswith(f"{name}.") for each in PUBLIC)


def test_the_applications_use_public_names():
    found = {name for name in used() if not is_public(name)}
    assert found - INTERNAL == set(), f"use public names; the list in {Path(__file__).name} may only become shorter."
    assert INTERNAL - found == set(), f"these are no longer used. Remove them from the list in {Path(__file__).name}."


def test_what_is_seen():
    text = (
        "import ellipslice as es\nes.gp.Fit\nfrom ellipslice.apps.x import y\nfrom ellipslice.noise import threefry\n"
    )
    assert set(imported(text)) == {"ellipslice.gp.Fit", "ellipslice.gp", "ellipslice.noise.threefry"}
    assert [is_public(name) for name in sorted(imported(text))] == [True, True, False]

"""The reference pages list every public name, and pages state what is not run. `test_site.py` builds the site."""

from __future__ import annotations

import importlib.util
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

import ellipslice as es
from layout.public_names import documented

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_spec = importlib.util.spec_from_file_location("write_outputs", DOCS / "write_outputs.py")
write_outputs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(write_outputs)

MODULES = (
    "ellipslice",
    "ellipslice.data",
    "ellipslice.diagnostics",
    "ellipslice.apps.explore",
    "ellipslice.gp",
    "ellipslice.interop.blackjax",
    "ellipslice.interop.numpyro",
    "ellipslice.interop.pymc",
    "ellipslice.likelihoods",
    "ellipslice.marginal",
    "ellipslice.moves",
    "ellipslice.terms",
    "ellipslice.testing",
)


def public(name: str) -> set[str]:
    """Return the public names of a module: those of `__all__`, otherwise the functions and classes defined in it."""
    module = pkgutil.resolve_name(name)
    names = getattr(module, "__all__", None) or [
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and getattr(value, "__module__", None) == name
    ]
    return {f"{name}.{key}" for key in names if not isinstance(getattr(module, key), ModuleType)}


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference(module):
    known = set(documented())
    if module == "ellipslice.marginal":
        known |= {"ellipslice.marginal.evidence"}  # which is `es.evidence`
    assert public(module) - known == set()


def test_public_names_are_seen():
    assert {"ellipslice.sample", "ellipslice.Dense"} <= public("ellipslice")
    assert public("ellipslice.diagnostics") == {
        f"ellipslice.diagnostics.{name}"
        for name in (
            *("check_convergence", "ConvergenceReport", "ConvergenceProblem"),
            *("effective_sample_size", "efficiency", "Efficiency"),
        )
    }


def test_modules_with_public_names_are_known():
    own = {f"ellipslice.{name}" for name in es.__all__ if isinstance(getattr(es, name), ModuleType)}
    assert own <= set(MODULES)


def test_the_reference_has_no_name_that_is_not_there():
    for name in documented():
        module, _, attribute = name.rpartition(".")
        assert hasattr(pkgutil.resolve_name(module), attribute), name


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_what_is_not_run_says_so(page):
    """Python code is a cell, which is run, or the page contains "not run"."""
    text = page.read_text(encoding="utf8")
    if page.name == "index.md" or "_build" in page.parts:
        return
    if "```python" in text:
        assert re.search(r"not run", text, re.IGNORECASE), "use ```{code-cell} ipython3, which is run"
    assert ("{code-cell}" in text) == text.startswith("---\nfile_format: mystnb\n"), "cells need the header of myst-nb"


ATTRIBUTES = (DOCS / "reference" / "result_attributes.md").read_text(encoding="utf8")


def documented_name(name: str) -> bool:
    """Return whether the page on results has a row for an attribute or a statistic."""
    return any(f"`{name}`" in row.split("|")[1] for row in ATTRIBUTES.splitlines() if row.startswith("| `"))


PAGES = [page for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts and page.name != "renamed.md"]
"""All pages except the one with earlier names."""


def unknown_names(text: str) -> list[str]:
    """Return the names of the library in inline code, such as `es.sample`, that do not exist."""
    names = [name.rstrip(".") for name in re.findall(r"`(?:es|ellipslice)\.([A-Za-z_][\w.]*)", text)]
    return [name for name in names if not exists(name)]


def exists(name: str) -> bool:
    """Return whether a public name or a module of the library exists."""
    try:
        pkgutil.resolve_name(f"ellipslice.{name}")
    except (AttributeError, ImportError):
        return False
    return True


def test_names_of_the_library_on_pages_exist():
    found = {page.name: unknown_names(page.read_text(encoding="utf8")) for page in [*PAGES, *ROOT.glob("*.md")]}
    assert not {name: names for name, names in found.items() if names}
    assert unknown_names("`es.sample(f)`, `es.smaple`, `es.moves.Local.none`") == ["smaple", "moves.Local.none"]


def unknown_attributes(text: str) -> list[str]:
    """Return the attributes of results that a page reads and the page on results does not have."""
    return [name for name in re.findall(r"""attrs\[["'](\w+)["']\]""", text) if not documented_name(name)]


def test_pages_read_attributes_that_results_have():
    found = {page.name: unknown_attributes(page.read_text(encoding="utf8")) for page in [*PAGES, ROOT / "README.md"]}
    assert not {name: names for name, names in found.items() if names}
    assert unknown_attributes('tree.attrs["move_of_reference"], tree.attrs["move"]') == ["move_of_reference"]


@pytest.mark.parametrize("options", [{"reference": "auto", "until": es.Until(effective_sample_size=20)}, {"draws": 5}])
def test_every_attribute_and_statistic_of_a_run_is_documented(options):
    tree = es.sample(
        es.likelihoods.Poisson([1, 2, 3]), es.Diagonal([1.0, 1.0, 1.0]), warmup=5, chains=2, seed=1, **options
    )
    assert [name for name in (*tree.attrs, *tree.sample_stats.data_vars) if not documented_name(name)] == []


@pytest.mark.long
@pytest.mark.usefixtures("short_pilots")
def test_every_attribute_of_a_gaussian_process_is_documented():
    dist = pytest.importorskip("numpyro.distributions")
    kernels = pytest.importorskip("tinygp.kernels")
    model = es.gp.LatentGP(
        lambda scale: kernels.Matern52(scale), es.likelihoods.Poisson, parameters={"scale": dist.LogNormal(0.0, 1.0)}
    )
    tree = model.fit([0.0, 1.0, 2.0], [1, 2, 3], draws=5, warmup=5, chains=2, seed=1).tree
    assert [name for name in (*tree.attrs, *tree.sample_stats.data_vars) if not documented_name(name)] == []


def test_every_attribute_of_a_latent_gaussian_model_is_documented():
    pytest.importorskip("numba")
    model = es.LatentGaussianModel("y ~ 1", data={"y": [1, 2, 3]}, family="poisson")
    tree = model.fit(draws=5, warmup=5, chains=2, seed=1, progress=False).tree
    assert [name for name in (*tree.attrs, *tree.sample_stats.data_vars) if not documented_name(name)] == []


def test_a_name_that_is_not_documented_is_found():
    assert documented_name("engine_reason")
    assert not documented_name("no_such_attribute")


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_stored_outputs_belong_to_the_cells_of_the_page(page):
    """Outputs in a page are those of its present cells. If not: python docs/write_outputs.py PAGE."""
    text = page.read_text(encoding="utf8")
    assert set(write_outputs.BLOCK.findall(text)) <= set(write_outputs.checksums(text))


WITHOUT_OUTPUTS = {"api/commands.md"}
"""Pages with cells and no stored outputs: help texts of commands."""


def test_pages_with_cells_have_outputs_for_readers_on_github():
    pages = {str(page.relative_to(DOCS)): page.read_text(encoding="utf8") for page in DOCS.rglob("*.md")}
    with_cells = {name for name, text in pages.items() if "{code-cell}" in text and not name.startswith("_build")}
    assert {name for name in with_cells if not write_outputs.BLOCK.search(pages[name])} <= WITHOUT_OUTPUTS


def test_outputs_of_other_cells_are_found():
    cell = "```{code-cell} ipython3\nprint(1)\n```\n"
    (found,) = write_outputs.checksums(cell)
    page = f"{cell}\n<!-- output {found} -->\n\n1\n\n<!-- end of output -->\n"
    assert write_outputs.checksums(page) == [found]
    assert write_outputs.checksums(page.replace("print(1)", "print(2)")) != [found]
    assert write_outputs.without_outputs(page) == cell


def test_stored_outputs_leave_out_progress_and_objects_without_a_readable_form(tmp_path):
    def shown(*texts):
        outputs = [{"output_type": "display_data", "data": {"text/plain": text}} for text in texts]
        return write_outputs.shown(outputs, tmp_path / "unused.png", DOCS / "quickstart.md")

    bar = f"warm-up {'━' * 3}{'·' * 21} 00:16 left, 0/4,000, 0 draws/s, 1.5 evaluations/update"
    assert shown("compiling", bar, "<Axes: >", "<xarray.DataTree>") == []
    assert shown("(4, 200)", "<xarray.Dataset> Size: 8B") == ["```text\n(4, 200)\n<xarray.Dataset> Size: 8B\n```"]

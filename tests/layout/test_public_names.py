"""Public names and signatures agree with public_names.txt, so that none changes unintentionally."""

from __future__ import annotations

import pytest

from ellipslice.moves import NealMetropolis
from layout import public_names


def test_public_names_and_signatures_are_those_on_record():
    for module in ("blackjax", "numpyro", "pymc"):
        pytest.importorskip(f"ellipslice.interop.{module}")
    recorded = public_names.RECORD.read_text(encoding="utf8").splitlines()
    found = list(public_names.lines())
    gone, new = [line for line in recorded if line not in found], [line for line in found if line not in recorded]
    assert (gone, new) == ([], []), (
        "Public names have changed. If that is intended, add it to CHANGELOG.md and write the list again: "
        f"{public_names.COMMAND}"
    )


def test_a_change_is_seen(monkeypatch):
    """A renamed parameter, another default and a new method are detected."""

    def before(f, *, size=1): ...

    def renamed(f, *, count=1): ...

    def default(f, *, size=2): ...

    described = {public_names.signature(function) for function in (before, renamed, default)}
    assert described == {"(f, *, size=1)", "(f, *, count=1)", "(f, *, size=2)"}
    before = list(public_names._describe("N", NealMetropolis))
    monkeypatch.setattr(NealMetropolis, "another", lambda self, f: f, raising=False)
    after = list(public_names._describe("N", NealMetropolis))
    assert [line for line in after if line not in before] == ["N.another(self, f)"]

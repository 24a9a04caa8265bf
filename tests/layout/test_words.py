"""Docstrings, messages and pages use plain words in standard order.

The lists hold the habits that made texts of this project hard to read. A phrase that is right in one place, such as a
quotation, is listed in `ALLOWED`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FIRST_WORDS = ("Also", "As", "How", "In a word", "Of", "The same", "Those", "What", "Where", "Which", "Who")
"""A docstring that begins so does not make sense without its neighbours, or has no subject. (Constants and attributes
that are true or false may begin with "Whether", functions not.)"""

PHRASES = (
    *(r"\bbeside\b", r"\bgone on\b", r"\bgo(es)? on with\b", r"\bunless given\b", r"\bso many\b", r"\bdear(er)?\b"),
    *(
        r"\balike\b",
        r"\bworth\b",
        r"\bverdict",
        r"\btold\b",
        r"\bof (its|their|your|our) own\b(?! [a-zA-Z]+)",
        r"\bof yours\b",
    ),
    *(r"\bside by side\b", r"\bbut for\b(?! these)", r"\beffective (draws|size|number)\b", r"\bspeaks? for itself\b"),
    *(r"\b(is|are|was|were) refused\b", r"\brefuses\b", r"\bwants\b", r"\bto the bit\b", r"\bforgive"),
    *(r"\bat home\b", r"\bway back\b", r"\bold friend", r"\bmade safe\b", r"\bseen through\b", r"\bsince long\b"),
)
"""Idioms, personifications and private terms; style of words is described in CONTRIBUTING.md."""

TEXTS = {
    "src": "*.py",
    "docs": "*.md",
    "docs/api": "*.rst",
    "docs/_extensions": "*.py",
    "examples": "*.py",
    "benchmarks": "*.py",
}
GENERATED = ("_build", "gallery")
ALLOWED: dict[str, tuple[str, ...]] = {
    "docs/reference/renamed.md": ("verdict",),  # an old name
}


def files(folder: str, pattern: str) -> list[Path]:
    """Return the files of a folder that match, without those that a build generates."""
    found = sorted((ROOT / folder).rglob(pattern))
    return [path for path in found if not set(GENERATED) & set(path.relative_to(ROOT).parts)]


def docstrings(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield line and text of each docstring of a module, those of constants and fields included.

    The third value is True for functions and methods, but not for properties.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        body = getattr(node, "body", None)
        decorators = {ast.unparse(one) for one in getattr(node, "decorator_list", ())}
        function = isinstance(node, ast.FunctionDef) and not decorators & {"property", "cached_property"}
        for child in body if isinstance(body, list) else ():
            value = getattr(child, "value", None)
            if isinstance(child, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield child.lineno, value.value.strip(), function


def first_words(path: Path) -> Iterator[str]:
    """Yield a line for each docstring that begins with one of `FIRST_WORDS`."""
    for line, text, function in docstrings(path):
        for word in (*FIRST_WORDS, *(["Whether"] if function else [])):
            if re.match(rf"{word}\b", text):
                yield f"{path.name}:{line}: begins with {word!r}: {text[:60]}"


def phrases(name: str, text: str) -> Iterator[str]:
    """Yield a line for each occurrence of one of `PHRASES` in a text, quoted code included."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern in PHRASES:
            for match in re.finditer(pattern, line, re.IGNORECASE):
                if match[0].lower() not in ALLOWED.get(name, ()):
                    yield f"{name}:{number}: {match[0]!r} in: {line.strip()[:100]}"


def test_docstrings_begin_with_a_verb_or_a_noun():
    found = [line for path in files("src", "*.py") for line in first_words(path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", TEXTS)
def test_texts_use_standard_words(folder):
    found = []
    for path in files(folder, TEXTS[folder]):
        found += phrases(str(path.relative_to(ROOT)), path.read_text(encoding="utf8"))
    assert not found, "\n".join(found)


def test_the_files_of_the_root_use_standard_words():
    found = []
    for path in sorted(ROOT.glob("*.md")):
        found += phrases(path.name, path.read_text(encoding="utf8"))
    assert not found, "\n".join(found)


def test_a_bad_docstring_and_a_bad_phrase_are_found(tmp_path):
    path = tmp_path / "module.py"
    path.write_text('def f():\n    """Whether it is worth it."""\n', encoding="utf8")
    assert len(list(first_words(path))) == 1
    assert len(list(phrases("module.py", path.read_text(encoding="utf8")))) == 1

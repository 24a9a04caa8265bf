"""Files, functions and lists of parameters are short. The number of exceptions may only decrease.

A file has at most 300 lines. A function has at most 40 lines of code in its body, without docstring, blank lines and
comments, and at most 8 parameters.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "ellipslice"
FILE_LINES, FUNCTION_LINES, PARAMETERS = 300, 40, 8

# Current exceptions. Remove an entry when it is within the limit, and add none.
LONG_FILES: set[str] = set()

LONG_FUNCTIONS: set[str] = set()

MANY_PARAMETERS = {
    "apps/cli/bench.py: bench",
    "apps/cli/fit.py: fit",
    "apps/cli/resume.py: resume",
    "engines/device/run.py: _run_on_one_device",
    "gp/cox.py: CoxProcess.fit",
    "gp/sklearn/classifier.py: EllipticalGPClassifier.__init__",
    "gp/sklearn/regressor.py: EllipticalGPRegressor.__init__",
    "gp/model.py: LatentGP.fit",
    "latent/model.py: LatentGaussianModel.__init__",
    "latent/model.py: LatentGaussianModel.fit",
    "marginal/evidence.py: evidence",
    "sampling/resume.py: resume",
    "sampling/sample.py: sample",
    "tuning/controls.py: tune_controls",
    "tuning/steps.py: tune_step",
}


class Function(NamedTuple):
    """A function or method, by file and name."""

    name: str
    code_lines: int
    parameters: int


def functions(text: str, where: str) -> Iterator[Function]:
    """Yield every function of a file, including nested ones, whose lines count for both."""
    code = _code_lines(text)

    def visit(node: ast.AST, path: str) -> Iterator[Function]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield from visit(child, f"{path}{child.name}.")
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                a = child.args
                names = [each.arg for each in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
                names += [each.arg for each in (a.vararg, a.kwarg) if each is not None]
                own = [name for name in names if name not in ("self", "cls")]
                first = child.body[0]
                doc = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and type(first.value.value)
                skipped = set(range(first.lineno, (first.end_lineno or 0) + 1)) if doc is str else set()
                lines = code & set(range(first.lineno, (child.end_lineno or 0) + 1)) - skipped
                yield Function(f"{where}: {path}{child.name}", len(lines), len(own))
                yield from visit(child, f"{path}{child.name}.")
            else:
                yield from visit(child, path)

    yield from visit(ast.parse(text), "")


def _code_lines(text: str) -> set[int]:
    """Return the numbers of the lines that are neither blank nor a comment."""
    stripped = enumerate((line.strip() for line in text.splitlines()), start=1)
    return {number for number, line in stripped if line and not line.startswith("#")}


def files() -> dict[str, str]:
    found = sorted(SOURCE.rglob("*.py"))
    return {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf8") for path in found}


@pytest.fixture(scope="module")
def every_function() -> list[Function]:
    return [function for name, text in files().items() for function in functions(text, name)]


def check(found: set[str], listed: set[str], what: str) -> None:
    assert found - listed == set(), f"{what}. Make it shorter; the list in {__file__} may only become shorter."
    assert listed - found == set(), f"these are within the limit now. Remove them from the list in {__file__}."


def test_files():
    found = {name for name, text in files().items() if len(text.splitlines()) > FILE_LINES}
    check(found, LONG_FILES, f"a file has more than {FILE_LINES} lines")


def test_functions(every_function):
    found = {function.name for function in every_function if function.code_lines > FUNCTION_LINES}
    check(found, LONG_FUNCTIONS, f"a function has more than {FUNCTION_LINES} lines of code")


def test_parameters(every_function):
    found = {function.name for function in every_function if function.parameters > PARAMETERS}
    check(found, MANY_PARAMETERS, f"a function has more than {PARAMETERS} parameters")


def test_what_is_counted():
    text = '''
def f(self, a, *b, c=1, **d):
    """A docstring
    of two lines."""

    # a comment
    x = (1,
         2)

    def inner(y):
        return y
    return x
'''
    outer, inner = functions(text, "m.py")
    assert outer == Function("m.py: f", 5, 4)
    assert inner == Function("m.py: f.inner", 1, 1)
    with pytest.raises(AssertionError, match="Make it shorter"):
        check({"m.py: f"}, set(), "a function is too long")
    with pytest.raises(AssertionError, match="Remove them"):
        check(set(), {"m.py: f"}, "a function is too long")

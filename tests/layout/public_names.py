"""The public names and their signatures, one line each: public_names.txt.

    python tests/layout/public_names.py     # writes the file again

The names on the reference pages in docs/api and the commands are public.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("public_names.txt")
COMMAND = "python tests/layout/public_names.py"


def documented() -> list[str]:
    """Return every name with an entry on a reference page."""
    pages = "\n".join(page.read_text(encoding="utf8") for page in sorted((ROOT / "docs" / "api").glob("*.rst")))
    names = set(re.findall(r"^\.\. auto(?:class|function|exception|data):: (\S+)$", pages, re.MULTILINE))
    for folder, public in re.findall(r"^\.\. registered:: (\S+)\n(?:   :public: (\S+)\n)?", pages, re.MULTILINE):
        names |= {f"{public or folder}.{cls.__name__}" for cls in importlib.import_module(folder).REGISTERED}
    return sorted(names)


def lines() -> Iterator[str]:
    """Return a line for every public name with its signature. Methods and attributes follow their class."""
    for name in documented():
        module, _, own = name.rpartition(".")
        yield from _describe(name, getattr(pkgutil.resolve_name(module), own))
    yield from _commands()


def _describe(name: str, thing: Any) -> Iterator[str]:
    if not isinstance(thing, type):
        yield name + (signature(thing) if callable(thing) else f" = a {type(thing).__name__}")
        return
    yield f"class {name}{signature(thing)}"
    members: dict[str, tuple[type, Any]] = {}
    for base in reversed(thing.__mro__):
        if base.__module__.startswith("ellipslice"):
            members |= {key: (base, value) for key, value in vars(base).items() if not key.startswith("_")}
            members |= {key: (base, None) for key in vars(base).get("__annotations__", {}) if not key.startswith("_")}
    for key, (_, value) in sorted(members.items()):
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        kind = {classmethod: "classmethod ", staticmethod: "staticmethod "}.get(type(value), "")
        shown = signature(function) if inspect.isfunction(function) else ""
        yield f"{kind}{name}.{key}{shown}"


def signature(function: Any) -> str:
    """Return names, kinds and defaults of the parameters, without their types."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return "(...)"
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in found.parameters.values()]
    return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.Signature(bare)))


def _commands() -> Iterator[str]:
    from typer.main import get_command

    from ellipslice.apps.cli import app

    for name, command in sorted(get_command(app).commands.items()):  # type: ignore[attr-defined]
        parts = (" / ".join(sorted([*each.opts, *each.secondary_opts])) for each in command.params)
        yield f"$ ellipslice {name} {' '.join(f'[{part}]' for part in parts)}"


if __name__ == "__main__":
    RECORD.write_text("\n".join(lines()) + "\n", encoding="utf8")

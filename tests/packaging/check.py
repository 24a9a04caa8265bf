"""`make package`: build sdist and wheel, check their contents, and use them in empty environments.

    python tests/packaging/check.py                      # everything: about ten minutes, mostly for pip
    python tests/packaging/check.py --extras store,fit   # only these extras

Environments are created in a temporary folder, from the wheel alone. One has no extra. Each extra is tested in a copy
of it, to which pip adds only the packages of this extra.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from contents import ROOT, trouble_in_sdist, trouble_in_wheel
from uses import BARE, USES, WITHOUT

OTHERS = ("3.12", "3.13")
"""Versions of Python for which pip checks whether everything can be installed."""

QUICK = ("tests/exact/test_figure2.py", "tests/exact/test_reversible.py", "tests/packaging/test_contents.py")
"""Tests that are run from the unpacked sdist."""


def main() -> None:
    """Run all checks and exit with 1 if any fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--extras", default=",".join(USES), help="which to install, with commas; none if empty")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that environments are made with")
    arguments = parser.parse_args()
    extras = [extra for extra in arguments.extras.split(",") if extra]
    if unknown := set(extras) - set(USES):
        parser.error(f"there is no extra {unknown.pop()!r}; there are {', '.join(USES)}")
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="ellipslice-package-") as folder:
        checks.run(Path(folder), extras, arguments.python)
    if checks.failed:
        print(f"\n{len(checks.failed)} failed: {', '.join(checks.failed)}")
    sys.exit(bool(checks.failed))


class Checks:
    """The checks, one line each, and their failures."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def run(self, folder: Path, extras: Sequence[str], python: str) -> None:
        """Run all checks."""
        with self.line("python -m build"):
            call([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], folder)
        if self.failed:
            return
        (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
        with self.line("twine check"):
            call([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)], folder)
        with self.line("the wheel and the sdist are whole"):
            if trouble := [*trouble_in_wheel(wheel), *trouble_in_sdist(sdist)]:
                raise RuntimeError("\n".join(trouble))
        with self.line("tests run from the sdist"):
            test_sdist(sdist, folder / "unpacked")
        bare = Environment(folder / "bare")
        with self.line(f"installed alone, by {Path(python).name}"):
            bare.make(python, wheel)
            call([str(bare.path / "bin" / "ellipslice"), "--help"], folder)
            bare.use(BARE)
        if not (bare.path / "bin" / "ellipslice").exists():
            return
        with self.line("the demo from there, without a picture"):
            bare.use(USES["plots"].replace("assert", "assert not Path('coal/coal_intensity.png').exists() or"))
        for extra, code in WITHOUT.items():
            with self.line(f"without [{extra}], an error names it"):
                bare.must_ask_for(extra, code)
        for extra in extras:
            with self.line(f"with [{extra}]"):
                try_extra(bare, folder / extra, wheel, extra)
        for version in OTHERS:
            with self.line(f"everything can be installed for Python {version}"):
                options = ["--dry-run", "--quiet", "--ignore-installed", "--only-binary=:all:"]
                options += ["--python-version", version, "--target", str(folder / version)]
                call([sys.executable, "-m", "pip", "install", *options, f"{wheel}[all]"], folder)

    @contextmanager
    def line(self, what: str) -> Iterator[None]:
        """Run one check and print its name, duration and error."""
        print(f"{what:<55}", end="", flush=True)
        began = time.monotonic()
        try:
            yield
        except (RuntimeError, OSError) as error:
            self.failed.append(what)
            print(f"FAILED\n{error}", flush=True)
        else:
            print(f"ok  {time.monotonic() - began:4.0f} s", flush=True)


class Environment:
    """A virtual environment with its own working folder."""

    def __init__(self, path: Path):
        self.path = path

    def make(self, python: str, wheel: Path) -> None:
        """Return a new environment with the wheel and its dependencies."""
        call([python, "-m", "venv", str(self.path)], self.path.parent)
        self.install(str(wheel))

    def install(self, what: str) -> None:
        """Install packages and check that their versions are compatible."""
        call([self._python, "-m", "pip", "install", "--quiet", what], self.path)
        call([self._python, "-m", "pip", "check"], self.path)

    def copy(self, path: Path) -> Environment:
        """Return a copy with the same packages, as hard links, because pip replaces files and never changes them."""
        shutil.copytree(self.path, path, symlinks=True, copy_function=os.link)
        return Environment(path)

    def use(self, code: str) -> None:
        """Run code in the environment, in an empty folder."""
        with tempfile.TemporaryDirectory() as folder:
            call([self._python, "-c", code], Path(folder))

    def must_ask_for(self, extra: str, code: str) -> None:
        """Run code that needs a missing extra. The error must name the extra."""
        try:
            self.use(code)
        except RuntimeError as error:
            if f"ellipslice[{extra}]" not in str(error):
                raise RuntimeError(f"the error does not name ellipslice[{extra}]:\n{error}") from None
        else:
            raise RuntimeError(f"there was no error, though [{extra}] is not installed")

    @property
    def _python(self) -> str:
        return str(self.path / "bin" / "python")


def try_extra(bare: Environment, path: Path, wheel: Path, extra: str) -> None:
    """Install an extra in a copy of the bare environment, and use it."""
    environment = bare.copy(path)
    try:
        environment.install(f"{wheel}[{extra}]")
        environment.use(USES[extra])
    finally:
        shutil.rmtree(path)


def test_sdist(sdist: Path, folder: Path) -> None:
    """Unpack an sdist, collect all its tests and run a few, with the packages of this environment."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    call([sys.executable, "-m", "pytest", "-q", "--collect-only", "tests"], root)
    call([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *QUICK], root)


def call(command: Sequence[str], folder: Path) -> None:
    """Run a program without our paths. Raise RuntimeError with its output if it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"JAX_PLATFORMS": "cpu", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise RuntimeError("\n".join([f"  {' '.join(command)[:200]}", *(f"  {line}" for line in said[-25:])]))


if __name__ == "__main__":
    main()

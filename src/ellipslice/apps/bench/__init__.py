"""How fast is it, beside others, in one run."""

from ellipslice.apps.bench.run import run

__all__ = ["run"]

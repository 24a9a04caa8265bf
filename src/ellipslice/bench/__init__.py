"""How fast is it, beside others, in one run."""

from ellipslice.bench.run import run

__all__ = ["run"]

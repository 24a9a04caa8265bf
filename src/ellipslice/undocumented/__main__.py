"""`python -m ellipslice.undocumented`: print which undocumented internals work here."""

from __future__ import annotations

import sys

import jax

from ellipslice.undocumented import table

if __name__ == "__main__":
    sys.stdout.write(f"JAX {jax.__version__}\n{table()}\n")

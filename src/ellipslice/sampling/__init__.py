"""Running chains: `sample`, `resume` to go on, and `join` for runs that shared them."""

from ellipslice.sampling.join import join
from ellipslice.sampling.resume import resume
from ellipslice.sampling.sample import sample
from ellipslice.sampling.until import Until

__all__ = ["Until", "join", "resume", "sample"]

"""Running chains: `sample`, and `resume` to go on."""

from ellipslice.sampling.resume import resume
from ellipslice.sampling.sample import sample
from ellipslice.sampling.until import Until

__all__ = ["Until", "resume", "sample"]

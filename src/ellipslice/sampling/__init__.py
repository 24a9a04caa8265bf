"""Running chains: `sample`."""

from ellipslice.sampling.sample import sample

__all__ = ["sample"]

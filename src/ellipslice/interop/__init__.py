"""Our update inside other libraries, each in a module of its own, which imports it and so is imported by itself.

from ellipslice.interop.blackjax import elliptical_slice
from ellipslice.interop.numpyro import EllipticalSlice
from ellipslice.interop.pymc import EllipticalSlice
"""

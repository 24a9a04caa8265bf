"""Our update inside other libraries, each in a module of its own, which imports it and so is imported by itself.

from ellipslice.interop.blackjax import elliptical_slice
from ellipslice.interop.numpyro import EllipticalSlice
from ellipslice.interop.pymc import EllipticalSlice

- `blackjax`: an algorithm for BlackJAX
- `numpyro`: a kernel for NumPyro
- `numpyro_sites`: which NumPyro sites have a Gaussian prior
- `pymc`: a step method for PyMC
- `pymc_prior`: which PyMC variables have a Gaussian prior
- `update`: one update inside JAX code that others compile
- `shared`: supported releases of the other libraries, and variables in consecutive blocks
"""

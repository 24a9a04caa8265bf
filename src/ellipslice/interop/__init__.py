"""Elliptical slice sampling inside other libraries. Each module imports its library, so import it explicitly.

from ellipslice.interop.blackjax import elliptical_slice
from ellipslice.interop.numpyro import EllipticalSlice
from ellipslice.interop.pymc import EllipticalSlice

- `blackjax`: a sampling algorithm for BlackJAX
- `numpyro`: an MCMC kernel for NumPyro
- `numpyro_sites`: find the NumPyro sites with a Gaussian prior
- `pymc`: a step method for PyMC
- `pymc_prior`: Gaussian priors of PyMC variables
- `update`: one update for JAX code that another library compiles
- `shared`: check of the other library's release, and the division of variables into blocks
"""

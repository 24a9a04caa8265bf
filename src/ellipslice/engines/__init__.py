"""Engines: the code that runs the updates of chains.

The random numbers of an update depend only on the seed, the chain and the update. The host, compiled and workers
engines use the same ones. The device engines draw theirs on the device, by another generator.

- `base`: the interface of engines, and the specification of a run
- `rows`: the draws and statistics that a run returns, and how they are made from updates
- `choose`: the choice of an engine for a log-likelihood, with the reason
- `threads`: a limit for the threads of NumPy's matrix products
- `host/`: any Python function, in the caller's thread
- `compiled/`: log-likelihoods that JAX can trace, one compiled loop per chain
- `device/`: all chains in parallel on a device, such as a GPU
- `workers/`: another engine, run by the workers of an executor
"""

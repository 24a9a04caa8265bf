"""Engines: what runs the updates of chains. All engines consume the same random numbers.

- `base`: the interface of engines, and the specification of a run
- `rows`: the rows that a run hands over, and how updates become rows
- `choose`: which engine can run a log-likelihood, and why
- `threads`: cores, and the threads that NumPy's matrix products may use
- `host/`: any Python function, in the caller's thread
- `compiled/`: log-likelihoods that JAX can trace, one compiled loop per chain
- `device/`: all chains together on a device, such as a GPU
- `workers/`: another engine whose work is done by the workers of an executor
"""

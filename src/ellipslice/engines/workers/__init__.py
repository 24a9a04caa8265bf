"""The workers engine: another engine, run by the workers of an executor.

- `engine`: the engine, which sends chains, or proposals of chains with slow evaluations, to workers
- `pool`: the workers of an executor, and tasks that are sent again if a worker is lost
- `remote`: the code that runs on a worker
"""

"""The workers engine: another engine whose work is done by the workers of an executor.

- `engine`: the engine; it sends chains, or the proposals of a few slow ones
- `pool`: the workers of an executor; work that is lost is sent again
- `remote`: what a worker does
"""

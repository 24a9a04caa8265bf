"""The host engine: chains in plain Python, for any log-likelihood.

- `engine`: the engine, the target of moves, and runs that advance chain by chain or all chains in one batch
- `search`: the slice search of a chain, and the points that it tries
- `angles`: tables of the angles that a block of updates tries
- `call`: calls of the user's function, and checks of the values that it returns
"""

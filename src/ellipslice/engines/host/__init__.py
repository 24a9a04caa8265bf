"""The host engine: chains in plain Python, for any log-likelihood.

- `engine`: the engine, the target of moves, and runs of one or of all chains at a time
- `search`: a chain, the points that its updates try, and the judge of their values
- `angles`: tables of the angles that a block of updates tries
- `call`: calls of the user's function, and checks of what it returns
"""

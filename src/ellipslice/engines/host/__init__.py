"""The host engine: chains in plain Python, for any log-likelihood.

- `engine`: the engine, and runs of one or of all chains at a time
- `angles`: tables of the angles that a block of updates tries
- `call`: calls of the user's function, and checks of what it returns
"""

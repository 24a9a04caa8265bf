"""The batched and fused engines: all chains together on a device, in plain XLA or in one GPU kernel.

- `engine`: the two engines
- `run`: a run in progress, block by block
- `loop`: the search loop of all chains in plain XLA
- `kernel`: one GPU kernel that runs whole chains
- `noise`: random numbers from counters, and the angles that follow from them
- `normals`: random words as standard normals
- `prior_draws`: draws from the prior
- `float16_factor`: the prior's factor as two matrices of half precision
- `sharding`: chains and data on several devices
"""

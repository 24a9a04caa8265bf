"""The batched and fused engines: all chains in parallel on a device, in an XLA loop or in one GPU kernel.

- `engine`: the two engines
- `run`: a run in progress, block by block
- `loop`: the search loop of all chains in XLA
- `draws`: the draws of a block, and the totals of its updates
- `lock_step`: the loop in XLA in which all chains make each update in parallel
- `kernel`: one GPU kernel that runs whole chains
- `kernel_chain`: one chain inside that kernel
- `kernel_angles`: a GPU kernel that computes the angles of the searches
- `kernel_launch`: launching, loading and random numbers, for both kernels
- `noise`: random numbers made from counters, and the angles that they determine
- `prior_draws`: draws from the prior, and its factor as two float16 matrices
- `reference_draws`: draws from a reference Gaussian, and the data of moves around it
- `reference_updates`: the updates of moves around a reference Gaussian, for all chains
- `sharding`: division of the chains among several devices and processes
"""

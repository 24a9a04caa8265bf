"""The batched and fused engines: all chains together on a device, in plain XLA or in one GPU kernel.

- `engine`: the two engines
- `run`: a run in progress, block by block
- `loop`: the search loop of all chains in plain XLA
- `kernel`: one GPU kernel that runs whole chains
- `kernel_chain`: one chain inside that kernel
- `kernel_angles`: a GPU kernel that makes the angles
- `kernel_launch`: what both kernels share
- `noise`: random numbers from counters: uniforms, normals, and the angles that follow
- `prior_draws`: draws from the prior; its factor as two matrices of half precision
- `sharding`: chains on several devices and processes
"""

"""Programs: the operations of a log-likelihood, as JAX traced them.

- `traced`: separate a function into program and data; properties of a program; evaluation at many points
- `site_sums`: find out whether a log-likelihood factorises over the elements of f, and read its terms
- `site_program`: the program of one element of f, for CPUs and GPU kernels
- `vector_sums`: sums over the elements of f with the vector instructions of a CPU
"""

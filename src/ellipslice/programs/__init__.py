"""Programs: what a log-likelihood computes.

- `traced`: a function as a program and its data; its operations; its values at many points
- `site_sums`: whether a log-likelihood is a sum over the elements of f, and that sum
- `site_program`: the program of one element, for CPUs and kernels
- `vector_sums`: such a sum arranged for the vector units of a CPU
"""

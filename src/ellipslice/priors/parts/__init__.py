"""Parts of priors.

- `conditional`: a block of values given the others
- `markov_conditional`: an interval of a time series given its past and future
- `null_space`: directions in which a singular prior does not vary
- `constraints`: intrinsic fields under linear constraints
- `precisions`: sparse precisions: random walks, graphs, Matérn fields
- `sparse_cholesky`: sparse Cholesky factors: CHOLMOD or SuperLU
- `kernels`: kernels of tinygp, scikit-learn, or plain functions
- `random_walk_kernel`: the random walk as a kernel of tinygp
- `features`: Fourier features and inducing points
- `augmented`: the prior of [f, A f]
- `feasible_point`: a point that satisfies linear constraints
"""

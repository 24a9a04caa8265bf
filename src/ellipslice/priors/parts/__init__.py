"""Parts that priors share.

- `conditional`: the conditional distribution of a block given the rest
- `markov_conditional`: an interval of a time series given its past and future
- `sparse_conditional`: a block of a Gaussian Markov random field given the rest
- `null_space`: directions in which a singular prior does not vary
- `constraints`: intrinsic fields under linear constraints
- `precisions`: sparse precision matrices of random walks, graphs and Matérn fields
- `sparse_cholesky`: sparse Cholesky factors, by SuperLU or CHOLMOD
- `kernels`: kernels of tinygp and scikit-learn, and plain functions
- `state_space`: quasi-separable kernels as state space models
- `random_walk_kernel`: the random walk as a kernel of tinygp
- `features`: low-rank factors by Fourier features and inducing points
- `only_draws`: priors without a linear map from standard normals
- `augmented`: the prior of [f, A f]
- `feasible_point`: a point that satisfies linear inequalities
"""

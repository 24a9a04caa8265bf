"""Hyperparameters and latent functions together: their joint prior, and the move for both.

- `parameters`: hyperparameters with their priors, as an unconstrained vector
- `named_arguments`: users' functions, called with the hyperparameters that they name
- `joint`: the joint prior p(u) N(f; m(u), Sigma(u))
- `factor`: factors of Sigma(u), by NumPy and by JAX
- `pivots`: pivots for low-rank factors of smooth kernels
- `point_likelihood`: the log-likelihood of a point of the joint prior
- `sites`: site approximations that follow the hyperparameters
- `fit_sites`: find the sites, by expectation propagation
- `variational_sites`: find the sites of several latent functions
- `conditioned_noise`: white noise given sites
- `sweep`: the move: hyperparameters, then latent functions
- `choose_way`: which parametrisation to use, by pilot runs
"""

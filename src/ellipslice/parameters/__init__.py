"""Hyperparameters and latent functions together: their joint prior, and the move for both.

- `parameters`: hyperparameters with their priors, as an unconstrained vector u
- `named_arguments`: users' functions, called with the hyperparameters or latent functions that they name
- `joint`: the joint prior p(u) N(f; m(u), Sigma(u)), and points of it
- `factor`: the interface `Factor` of a factor of Sigma(u), dense or low-rank
- `kernel_factors`: from hyperparameters to the factors and means of kernels at inputs
- `pivots`: pivots for low-rank factors of smooth kernels
- `point_likelihood`: the log-likelihood of a point of the joint prior
- `sites`: site approximations that follow the hyperparameters
- `fit_sites`: find the sites, by expectation propagation
- `variational_sites`: find the sites of several latent functions
- `conditioned_noise`: white noise given sites
- `joint_update`: the move: hyperparameters, then latent functions
- `parametrisations`: what is fixed while hyperparameters move: white noise, f, or noise given sites or surrogate data
- `update_settings`: settings of the move: its mixture of steps, Gaussians and sites
- `stored_update`: the move in a store
- `choose_parametrisation`: which parametrisation to use, by pilot runs
"""

"""Joint inference of hyperparameters and latent functions: their joint prior, and the move for both.

- `parameters`: hyperparameters with their priors, as an unconstrained vector u
- `named_arguments`: users' functions, called with the hyperparameters or latent functions that they name
- `joint`: the joint prior p(u) N(f; m(u), Sigma(u)), and its points
- `factor`: the interface of a factor of Sigma(u), and dense and low-rank factors
- `kernel_factors`: from hyperparameters to the factors and means of kernels at inputs
- `pivots`: choose pivots for low-rank factors of smooth kernels
- `point_likelihood`: the log-likelihood at a point of the joint prior
- `sites`: site approximations that follow the hyperparameters
- `fit_sites`: find the sites by expectation propagation
- `variational_sites`: find the sites of several latent functions
- `conditioned_noise`: the white noise of f given sites
- `joint_update`: the move, which updates hyperparameters and latent functions in turn
- `parametrisations`: what is fixed while hyperparameters move: white noise, f, or noise given sites or surrogate data
- `update_settings`: settings of the move: its cycle of steps, Gaussians and sites
- `stored_update`: the form of the move in a store
- `choose_parametrisation`: choose the parametrisation by pilot runs
"""

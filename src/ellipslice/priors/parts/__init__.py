"""What priors are made of: conditionals, precisions, kernels, constraints."""

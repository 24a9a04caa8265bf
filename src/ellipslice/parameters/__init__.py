"""Unknown parameters and latent values together: their joint prior, and the move for both."""

"""What a likelihood computes: traced, and as a sum over sites that vector units or kernels can run."""

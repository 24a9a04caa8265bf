"""Who runs the loop: `host` for any Python, `compiled` for what JAX can trace. Both consume the same noise."""

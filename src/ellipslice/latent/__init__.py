"""Latent Gaussian models: additive predictors of Gaussian terms, and families of responses.

- `families`: the families of responses, by name
- `family`: a family of responses: its likelihood, hyperparameters, checks and predictions
- `sparse/`: sparse Cholesky factorisations with one pattern and many values
"""

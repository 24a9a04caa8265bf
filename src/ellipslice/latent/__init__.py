"""Latent Gaussian models: additive predictors of Gaussian terms, and families of responses.

- `terms/`: terms of the linear predictor, one family per file
- `hyperpriors`: priors of the hyperparameters of terms
- `mixing_distribution`: the penalised-complexity prior of the proportion of spatial variance
- `families`: the families of responses, by name
- `family`: a family of responses: its likelihood, hyperparameters, checks and predictions
- `formula/`: formulas: parser, design matrices, requests for terms
- `sparse/`: sparse Cholesky factorisations with one pattern and many values
"""

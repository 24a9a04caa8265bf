"""Gaussian-process estimators for scikit-learn.

- `estimators`: both estimators by name, after a check that scikit-learn is installed
- `classifier`: `EllipticalGPClassifier`
- `regressor`: `EllipticalGPRegressor`
- `base`: the base class of both: settings, kernel, scaled inputs, draws
- `ensemble`: their sampler, ensemble MCMC over hyperparameter values
- `laplace`: the Laplace approximation in NumPy
- `estimator_parameters`: their hyperparameters as one unconstrained vector
"""

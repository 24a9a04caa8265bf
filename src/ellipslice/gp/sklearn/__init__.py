"""Estimators for scikit-learn.

- `estimators`: `EllipticalGPClassifier` and `EllipticalGPRegressor`
- `base`: what the two share: settings, kernel, scaled inputs, draws
- `ensemble`: their chains, which choose among several hyperparameter values
- `laplace`: the Laplace approximation in NumPy
- `estimator_parameters`: their hyperparameters
"""

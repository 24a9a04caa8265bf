"""The estimators by name. Importing this module raises if scikit-learn is missing or too old."""

from __future__ import annotations

try:
    from sklearn.utils.validation import validate_data  # noqa: F401  (new in scikit-learn 1.6)
except ImportError as error:
    raise ImportError(
        "the estimators require scikit-learn 1.6 or later. Install it with: pip install 'ellipslice[sklearn]'."
    ) from error

from ellipslice.gp.sklearn.classifier import EllipticalGPClassifier
from ellipslice.gp.sklearn.regressor import EllipticalGPRegressor

__all__ = ["EllipticalGPClassifier", "EllipticalGPRegressor"]

"""Gaussian-process models: from data to draws, predictions and plots.

- `model`: `LatentGP`
- `definition`: the parts of a `LatentGP`: kernels, means, likelihood and hyperparameters
- `cox`: `CoxProcess`
- `fit`: `Fit`: draws, predictions, posterior predictive draws
- `arviz_groups`: the groups of a fit that ArviZ reads
- `names`: names and labels of points and hyperparameters in results
- `stored_fit`: read a fit from a store
- `conditional`: draw latent functions at new inputs
- `log_evidence`: the log marginal likelihood by bridge sampling
- `problem`: from model and data to the arguments of `sample`, and the attributes of the result
- `time_series`: long time series with unknown hyperparameters, in linear time
- `components`: which hyperparameter enters kernel, mean or likelihood
- `structure`: choose the prior for a kernel and its inputs
- `plot`: plots of a fit
- `sklearn/`: estimators for scikit-learn
"""

from typing import TYPE_CHECKING, Any

from ellipslice.gp.cox import CoxProcess
from ellipslice.gp.fit import Fit
from ellipslice.gp.model import LatentGP

if TYPE_CHECKING:
    from ellipslice.gp.sklearn.estimators import EllipticalGPClassifier, EllipticalGPRegressor

__all__ = ["CoxProcess", "EllipticalGPClassifier", "EllipticalGPRegressor", "Fit", "LatentGP"]


def __getattr__(name: str) -> Any:
    """Import the estimators at first use, because they need scikit-learn."""
    if name in ("EllipticalGPClassifier", "EllipticalGPRegressor"):
        from ellipslice.gp.sklearn import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

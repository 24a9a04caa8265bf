"""Gaussian-process models: from data to draws, predictions and pictures."""

from ellipslice.gp.cox import CoxProcess
from ellipslice.gp.fit import Fit
from ellipslice.gp.model import LatentGP

__all__ = ["CoxProcess", "Fit", "LatentGP"]

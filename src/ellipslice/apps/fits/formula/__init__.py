"""Fits of a formula: `ellipslice fit data.csv --formula "y ~ x + (1 | g)"`.

- `kind`: `FormulaKind`, what the commands need to know about these fits
- `settings`: the settings, as JSON
- `model`: the model, from settings and data; the columns that a formula uses
- `graphs`: graphs of regions from files
- `plots`: plots of the effects and of the checks
"""

from ellipslice.apps.fits.formula.kind import FormulaKind
from ellipslice.apps.fits.formula.settings import FormulaSettings

__all__ = ["FormulaKind", "FormulaSettings"]

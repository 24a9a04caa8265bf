"""A fit of a table, stored in a folder: the work of `ellipslice fit`, `resume`, `summary`, `plot` and `report`.

- `folder`: the folder of a fit
- `settings`: the settings of a fit, as JSON
- `table`: reading of the user's table
- `model`: the model, from settings and data
- `priors`: priors of hyperparameters, scaled to the data
- `summary`: the summary, as text and JSON
- `predictions`: predictions as a CSV file
- `plots`: plots of the fit and of its chains
- `report`: the HTML report
"""

from ellipslice.apps.fits.folder import RunFolder, begin
from ellipslice.apps.fits.settings import FitSettings

__all__ = ["FitSettings", "RunFolder", "begin"]

"""A fit of a table, stored in a folder: the work of `ellipslice fit`, `resume`, `summary`, `plot` and `report`.

- `folder`: the folder of a fit
- `settings`: the settings of a fit of a Gaussian process, as JSON
- `table`: reading of the user's table
- `run_settings`: settings that all fits have
- `kind`: what the commands need to know about a kind of fit
- `process`: fits of a Gaussian process
- `formula/`: fits of a formula
- `model`: the model of a Gaussian process, from settings and data
- `priors`: priors of hyperparameters, scaled to the data
- `summary`: the summary, as text and JSON
- `predictions`: predictions as a CSV file
- `plots`: plots of a Gaussian process and of the chains of any fit
- `report`: the HTML report
"""

from ellipslice.apps.fits.folder import RunFolder, begin
from ellipslice.apps.fits.settings import FitSettings

__all__ = ["FitSettings", "RunFolder", "begin"]

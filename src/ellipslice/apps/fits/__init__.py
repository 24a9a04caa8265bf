"""A fit in a folder: what `ellipslice fit`, `resume`, `summary`, `plot` and `report` do, without the command line.

- `folder`: the folder of a fit
- `settings`: the settings of a fit, as JSON
- `table`: the user's table
- `model`: from settings and columns to a model
- `priors`: priors scaled to the data
- `summary`: results in numbers
- `predictions`: predictions as a table
- `picture`: plots
- `report`: one HTML page
"""

from ellipslice.apps.fits.folder import RunFolder, begin
from ellipslice.apps.fits.settings import Asked

__all__ = ["Asked", "RunFolder", "begin"]

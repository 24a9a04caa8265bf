"""A fit in a folder: what `ellipslice fit`, `resume`, `summary`, `plot` and `report` do, without the command line."""

from ellipslice.apps.fits.folder import RunFolder, begin
from ellipslice.apps.fits.settings import Asked

__all__ = ["Asked", "RunFolder", "begin"]

"""Tables of responses and covariates, for latent Gaussian models."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

FOLDER = "latent_gaussian"


@dataclass(frozen=True, eq=False)
class RegionCounts:
    """Counts of the regions of a map, and which regions are neighbours.

    Attributes
    ----------
    columns : dict of str to read-only array, shape (regions,)
        The argument `data` of `es.LatentGaussianModel`.
    edges : read-only array of int, shape (edges, 2)
        Pairs of neighbours, each once, by the numbers in the column of regions. An argument `graph` of `es.terms.BYM`.
    """

    columns: dict[str, NDArray]
    edges: NDArray[np.int64]

    def __repr__(self) -> str:
        regions = len(next(iter(self.columns.values())))
        return f"RegionCounts({regions} regions, {len(self.edges)} edges; columns: {', '.join(self.columns)})"


def seeds() -> dict[str, NDArray]:
    """Load the seeds that germinated on 21 plates, for a binomial model with an effect of each plate.

    Returns
    -------
    dict of str to read-only array, shape (21,)
        `r` seeds of `n` germinated; `x1` is 1 for one of two types of seed, `x2` is 1 for one of two root extracts;
        `plate` is from 1 to 21.

    References
    ----------
    M. J. Crowder (1978), "Beta-binomial ANOVA for proportions", Applied Statistics 27(1):34-37. The README in the
    folder of the data file states the source of this copy.

    Examples
    --------
    >>> data = seeds()
    >>> list(data), int(data["r"].sum()), int(data["n"].sum())
    (['r', 'n', 'x1', 'x2', 'plate'], 424, 831)
    """
    return _columns("seeds")


def epil() -> dict[str, NDArray]:
    """Load the seizures of 59 patients with epilepsy at four visits, for a Poisson model with nested effects.

    Returns
    -------
    dict of str to read-only array, shape (236,)
        `y` seizures in the two weeks before a visit; `Trt` is 1 for the drug and 0 for placebo; `Base` is the number of
        seizures in the eight weeks before the trial; `Age` in years; `V4` is 1 for the fourth visit; `rand` is the
        number of the row, from 1 to 236; `Ind` is the number of the patient, from 1 to 59.

    References
    ----------
    N. E. Breslow & D. G. Clayton (1993), "Approximate inference in generalized linear mixed models", JASA
    88(421):9-25. The README in the folder of the data file states the source of this copy.

    Examples
    --------
    >>> data = epil()
    >>> len(data["y"]), int(data["y"].sum()), int(data["Ind"].max())
    (236, 1950, 59)
    """
    return _columns("epil")


def tokyo() -> dict[str, NDArray]:
    """Load the days of two years with more than 1 mm of rain in Tokyo, for a binomial model with a cyclic random walk.

    Returns
    -------
    dict of str to read-only array, shape (366,)
        `y` of `n` years had rain on day `time` of the year, from 1 to 366; n is 2, and 1 for 29 February.

    References
    ----------
    G. Kitagawa (1987), "Non-Gaussian state-space modeling of nonstationary time series", JASA 82(400):1032-1041. The
    README in the folder of the data file states the source of this copy.

    Examples
    --------
    >>> data = tokyo()
    >>> int(data["y"].sum()), int(data["n"].sum())
    (192, 731)
    """
    return _columns("tokyo")


def scotland() -> RegionCounts:
    """Load the cases of lip cancer in 56 districts of Scotland, for Poisson models with spatial effects.

    Returns
    -------
    RegionCounts
        Columns `Counts`; `E`, the expected number of cases; `X`, the percentage of people who work in agriculture,
        fishing or forestry; `Region`, from 1 to 56.

    References
    ----------
    N. E. Breslow & D. G. Clayton (1993), "Approximate inference in generalized linear mixed models", JASA
    88(421):9-25. The README in the folder of the data file states the source of this copy.

    Examples
    --------
    >>> scotland()
    RegionCounts(56 regions, 132 edges; columns: Counts, E, X, Region)
    """
    return RegionCounts(_columns("scotland"), _edges("scotland"))


def germany() -> RegionCounts:
    """Load the deaths by cancer of the oral cavity in 544 districts of Germany, 1986 to 1990.

    Returns
    -------
    RegionCounts
        Columns `region`, from 1 to 544; `E`, the expected number of deaths; `Y`, the observed number; `x`, a measure of
        smoking, from 3 to 97.

    References
    ----------
    L. Held, I. Natario, S. E. Fenton, H. Rue & N. Becker (2005), "Towards joint disease mapping", Statistical Methods
    in Medical Research 14(1):61-82. The README in the folder of the data file states the source of this copy.

    Examples
    --------
    >>> germany()
    RegionCounts(544 regions, 1416 edges; columns: region, E, Y, x)
    """
    return RegionCounts(_columns("germany"), _edges("germany"))


def _columns(name: str) -> dict[str, NDArray]:
    """Return the columns of a file, as whole numbers where all values are whole."""
    with (resources.files("ellipslice.data") / FOLDER / f"{name}.csv").open(encoding="utf8") as file:
        names = file.readline().strip().split(",")
        table = np.loadtxt(file, delimiter=",", ndmin=2)
    return {label: _frozen(values) for label, values in zip(names, table.T, strict=True)}


def _edges(name: str) -> NDArray[np.int64]:
    edges = np.column_stack(list(_columns(f"{name}_edges").values()))
    edges.flags.writeable = False
    return edges


def _frozen(values: NDArray) -> NDArray:
    """Return a read-only copy, of type int64 if all values are whole."""
    whole = values.astype(np.int64)
    found = whole if (whole == values).all() else values.copy()
    found.flags.writeable = False
    return found

"""Data sets that are included in the package.

Each is small and public. A README in the folder of the data file states its source and how the copy was checked.

- `tables`: tables of responses and covariates, for latent Gaussian models
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ellipslice.data.tables import RegionCounts, epil, germany, scotland, seeds, tokyo

__all__ = [
    "BIN_WIDTH",
    "DAYS_PER_YEAR",
    "CoalMining",
    "Published",
    "RegionCounts",
    "UspsDigits",
    "coal_mining",
    "epil",
    "finnish_pines",
    "germany",
    "published_figure6",
    "scotland",
    "seeds",
    "tokyo",
    "usps_3v5",
]

BIN_WIDTH = 50
"""Width of a bin of the coal-mining data, as in the paper. Days."""
LAST_DAY = 40550
"""Last day of the last bin, if the first event is on day 1: exactly 811 bins."""
FIRST_EVENT_DAY_OF_1851 = 74
"""Day of the year of the first event, 15 March 1851."""
DAYS_PER_YEAR = 365.25
"""Mean length of a year. Days."""


@dataclass(frozen=True, eq=False)
class CoalMining:
    """The 191 coal-mining explosions, as events and as counts in the bins of the paper. All arrays are read-only.

    Attributes
    ----------
    days : array of int, shape (191,)
        Days since the first event, from 0 to 40549.
    dates : array of datetime64[D], shape (191,)
        Calendar dates, from 15 March 1851 to 22 March 1962.
    years : array of float, shape (191,)
        Times of the events as decimal years, ``1851 + (74 + days) / 365.25``.
    counts : array of int, shape (811,)
        Number of explosions in each bin of 50 days.
    centres : array of float, shape (811,)
        Bin centres in days, from 25.5 to 40525.5. As in the paper, the first event is on day 1, so a centre is one more
        than the days since the first event.
    bin_years : array of float, shape (811,)
        Bin centres as decimal years, on the scale of `years`.
    """

    days: NDArray[np.int64]
    dates: NDArray[np.datetime64]
    years: NDArray[np.float64]
    counts: NDArray[np.int64]
    centres: NDArray[np.float64]
    bin_years: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"CoalMining({self.days.size} events, {self.dates[0]} to {self.dates[-1]}, {self.counts.size} bins)"


def coal_mining() -> CoalMining:
    """Load the coal-mining data: explosions with ten or more deaths in British coal mines, 1851 to 1962.

    These are the data of the log-Gaussian Cox process in Section 4.1 of the paper: 191 explosions, counted in 811 bins
    of 50 days.

    Returns
    -------
    CoalMining
        Event times and bin counts.

    References
    ----------
    R. G. Jarrett (1979), "A note on the intervals between coal-mining disasters", Biometrika 66(1):191-193.
    The README in the folder of the data file states how this copy was checked.

    Examples
    --------
    >>> coal = coal_mining()
    >>> coal
    CoalMining(191 events, 1851-03-15 to 1962-03-22, 811 bins)
    >>> int(coal.counts.sum()), int(coal.counts.max())
    (191, 4)
    >>> float(coal.centres[0]), float(coal.centres[-1])
    (25.5, 40525.5)
    """
    text = (resources.files(__name__) / "coal" / "events.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    days = np.array([int(row["days_since_first"]) for row in rows], dtype=np.int64)
    dates = np.array([row["date"] for row in rows], dtype="datetime64[D]")
    counts = np.bincount(days // BIN_WIDTH, minlength=LAST_DAY // BIN_WIDTH)
    centres = np.arange(counts.size, dtype=np.float64) * BIN_WIDTH + (BIN_WIDTH + 1) / 2
    arrays = (days, dates, decimal_year(days), counts, centres, decimal_year(centres - 1))
    for array in arrays:
        array.flags.writeable = False
    return CoalMining(*arrays)


def decimal_year(days_since_first: NDArray) -> NDArray[np.float64]:
    """Convert days since the first event to decimal years."""
    return 1851 + (FIRST_EVENT_DAY_OF_1851 + days_since_first) / DAYS_PER_YEAR


@dataclass(frozen=True, eq=False)
class UspsDigits:
    """Images of the digits 3 (label +1) and 5 (label -1), 16 x 16 pixels in [-1, 1]. All arrays are read-only.

    Attributes
    ----------
    x_train, x_test : arrays of float, shapes (767, 256) and (773, 256)
        Pixels, one image per row.
    y_train, y_test : arrays of float, shapes (767,) and (773,)
        Labels +1 and -1. All threes come first.
    """

    x_train: NDArray[np.float64]
    y_train: NDArray[np.float64]
    x_test: NDArray[np.float64]
    y_test: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"UspsDigits({len(self.y_train)} images to train on, {len(self.y_test)} to test)"


def usps_3v5() -> UspsDigits:
    """Load the USPS digits 3 and 5, handwritten on envelopes, in the split of Rasmussen & Williams (2006).

    The training images are the data of the classification experiment in Section 4.1 of the paper.

    Returns
    -------
    UspsDigits
        Images and labels for training and testing.

    References
    ----------
    J. J. Hull (1994), "A database for handwritten text recognition research", IEEE PAMI 16(5):550-554. The README
    in the folder of the data file states the source of this copy.

    Examples
    --------
    >>> usps_3v5()
    UspsDigits(767 images to train on, 773 to test)
    """
    with (resources.files(__name__) / "usps" / "digits.npz").open("rb") as file:
        stored = np.load(file)
        arrays = [stored[name].astype(np.float64) for name in ("x_train", "y_train", "x_test", "y_test")]
    for array in arrays:
        array.flags.writeable = False
    return UspsDigits(*arrays)


def finnish_pines() -> NDArray[np.int64]:
    """Load the counts of 126 pine saplings on a grid, a standard benchmark of log-Gaussian Cox processes.

    Returns
    -------
    read-only array of int, shape (30, 30)
        Number of saplings in each cell.

    References
    ----------
    Møller, Syversveen & Waagepetersen (1998), "Log Gaussian Cox processes", Scandinavian Journal of Statistics
    25(3):451-482. The README in the folder of the data file states the source of this copy.

    Examples
    --------
    >>> finnish_pines().sum()
    np.int64(126)
    """
    with (resources.files(__name__) / "pines" / "counts.csv").open(encoding="utf8") as file:
        cells = np.loadtxt(file, dtype=np.int64, delimiter=",", skiprows=1)
    counts = np.zeros((30, 30), dtype=np.int64)
    counts[cells[:, 0], cells[:, 1]] = cells[:, 2]
    counts.flags.writeable = False
    return counts


@dataclass(frozen=True)
class Published:
    """Published results of one method on one problem, from Figure 6 of the paper. Averages over 100 runs.

    Attributes
    ----------
    effective, effective_deviation : float
        Effective sample size of 100,000 iterations, and its standard deviation over runs.
    seconds, seconds_deviation : float
        Processor time of 110,000 iterations, and its standard deviation over runs. Seconds.
    evaluations : float
        Likelihood evaluations per iteration.
    """

    effective: float
    effective_deviation: float
    seconds: float
    seconds_deviation: float
    evaluations: float

    RUNS: ClassVar[int] = 100
    """Number of runs of each method on each problem."""
    EVALUATIONS_RESOLUTION: ClassVar[float] = 0.0025 / 0.11
    """Accuracy to which `evaluations` could be read from the figure."""
    RELATIVE_RESOLUTION: ClassVar[float] = 0.005
    """Accuracy to which `effective` could be read, as a fraction of that of elliptical slice sampling."""


def published_figure6() -> dict[tuple[str, str], Published]:
    """Load the results in Figure 6 of the paper, by problem and method.

    Control variables on USPS are missing, because the figure does not show them. The README in the folder of the data
    file states the source of the numbers.

    Returns
    -------
    dict
        Maps (problem, method) to `Published`.

    Examples
    --------
    >>> published_figure6()["Mine", "elliptical"].effective
    1819.0
    """
    text = (resources.files(__name__) / "figure6" / "figure6.csv").read_text(encoding="utf-8")
    rows = [row for row in csv.DictReader(text.splitlines()) if row["eff_abs"]]
    units = {row["experiment"]: row for row in rows if row["method"] == "elliptical"}
    return {
        (row["experiment"], row["method"]): Published(
            effective=float(row["eff_abs"]),
            effective_deviation=float(row["eff_rel_sd"]) * float(units[row["experiment"]]["eff_abs"]),
            seconds=float(row["cpu_seconds"]),
            seconds_deviation=float(row["cpu_rel_sd"]) * float(units[row["experiment"]]["cpu_seconds"]),
            evaluations=float(row["evals_millions"]) / 0.11,
        )
        for row in rows
    }

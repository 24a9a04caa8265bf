"""`Kind`: what the commands need to know about a kind of fit. There are Gaussian processes and formulas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from ellipslice.apps.fits.folder import RunFolder
    from ellipslice.apps.fits.run_settings import RunSettings
    from ellipslice.apps.fits.table import Table


def kind_of(asked: Mapping[str, Any]) -> Kind:
    """Return the kind of a fit from its settings, as JSON."""
    if "formula" in asked:
        from ellipslice.apps.fits.formula import FormulaKind

        return FormulaKind()
    from ellipslice.apps.fits.process import ProcessKind

    return ProcessKind()


@dataclass(frozen=True)
class Kept:
    """Data that a folder keeps.

    Attributes
    ----------
    content : bytes
        Content of data.csv.
    rows : int
    origins : list of str or None
        Date from which the days of each input are counted; None if the input is not a date.
    others : mapping of str to bytes
        Content of other files, by name.
    """

    content: bytes
    rows: int
    origins: list[str | None]
    others: Mapping[str, bytes] = field(default_factory=dict)


class Kind(ABC):
    """A kind of fit. It has no state: its methods get the folder of the fit."""

    parameter_name: str
    """Name of one of the quantities that the summary lists."""

    latent_name: str
    """Name of the part of the model that the summary shows in one row, with the worst diagnostics."""

    @abstractmethod
    def read_settings(self, asked: Any, path: Path) -> RunSettings:
        """Return the settings from JSON. Raise ValueError if they are anything else."""

    @abstractmethod
    def keep(self, table: Table, settings: Any, at: Table | None) -> Kept:
        """Return what the folder keeps of the data. Raise if data, settings or `at` contain a mistake."""

    @abstractmethod
    def read_data(self, folder: RunFolder) -> Any:
        """Return the content of data.csv."""

    @abstractmethod
    def problem(self, folder: RunFolder) -> Any:
        """Return the model, with methods `fit`, `resume` and `open`."""

    @abstractmethod
    def check_prediction_table(self, folder: RunFolder, table: Table) -> None:
        """Raise if predictions for the rows of a table are impossible."""

    @abstractmethod
    def describe(self, folder: RunFolder) -> str:
        """Return the model in one line."""

    @abstractmethod
    def known(self, folder: RunFolder) -> dict[str, Any]:
        """Return the values of fixed hyperparameters, by name."""

    @abstractmethod
    def parameters(self, folder: RunFolder, fit: Any) -> dict[str, np.ndarray]:
        """Return the draws of the quantities that the summary lists, by name, shape (chains, draws)."""

    @abstractmethod
    def latents(self, fit: Any) -> list[np.ndarray]:
        """Return the draws of the latent part of the model, each of shape (chains, draws, ...)."""

    @abstractmethod
    def no_plot(self, folder: RunFolder) -> str:
        """Return why there is no plot of the fit; an empty text if there is one."""

    @abstractmethod
    def draw(self, folder: RunFolder, fit: Any, variable: str | None) -> Figure:
        """Return a plot of the fit, or of one variable."""

    @abstractmethod
    def predictions(self, folder: RunFolder, fit: Any, at: Table | None) -> tuple[dict[str, Any], Any]:
        """Return the columns that identify each row, and a Dataset of predictive draws, at the data or at a table."""

    @abstractmethod
    def model_text(self, folder: RunFolder) -> list[str]:
        """Return paragraphs about the model for the report."""

    @abstractmethod
    def checks(self, folder: RunFolder, fit: Any) -> list[tuple[str, str, Figure]]:
        """Return further parts of the report: a title, a text and a figure."""

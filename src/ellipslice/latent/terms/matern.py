"""Matérn fields in the plane on a regular lattice, by a stochastic partial differential equation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from scipy.fft import idctn
from scipy.sparse import csr_array, eye_array

from ellipslice.checks import as_numbers, positive_number
from ellipslice.latent.hyperpriors import RANGE, SD, Hyperparameter, pc_range
from ellipslice.latent.terms.base import Effects
from ellipslice.latent.terms.columns import listed
from ellipslice.latent.terms.lattice import Lattice
from ellipslice.latent.terms.places import PlacedTerm
from ellipslice.latent.terms.structure import Structure, times

CELLS = 40
"""Default number of cells along the longer side of the rectangle."""
MAX_NODES = 60_000
"""Largest number of nodes of a lattice."""


@dataclass(frozen=True, eq=False)
class LatticeStructure(Structure):
    """The matrices of a field on a lattice."""

    lattice: Any = None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Matern(PlacedTerm):
    """Matérn field in the plane with smoothness 1, on a regular lattice with unknown range and standard deviation.

    The correlation at distance d is (kappa d) K_1(kappa d) with kappa = sqrt(8) / range, which is 0.14 at the range.
    The latent elements are the values at the nodes of a lattice with square cells. Their precision is that of Lindgren,
    Rue & Lindström (2011), tau^2 (kappa^4 C + 2 kappa^2 G + G C^-1 G), with tau^2 = 1 / (4 pi kappa^2 sd^2). Boundaries
    are reflecting. The effect of a row is interpolated between the four nodes around its place. If the range is at
    least 4 cells, the variance is up to 12 % larger than sd^2 at nodes, and on average over places up to 11% smaller.

    Parameters
    ----------
    column : tuple of two str, or array, shape (rows, 2)
        Columns with the two coordinates of each row, in the same unit.
    spacing : float, optional
        Side of a cell. Default: the longer side of the rectangle divided by 40.
    bounds : ((float, float), (float, float)), optional
        Smallest and largest value of each coordinate: the rectangle of the results, in which predictions are possible.
        Default: those of the data.
    extension : float, optional
        Width of a margin around the rectangle, in which the field continues, because reflecting boundaries increase
        the variance near them. At distance b from a boundary the variance is larger by the factor 1 + the correlation
        at distance 2 b. Default: a quarter of the longer side.
    prior : distribution of NumPyro, or mapping with "sd" and "range", optional
        Prior of sd, or of both. Default: the penalised-complexity prior of Fuglstad et al. (2019), with
        P(sd > 1 unit) = 0.01 and P(range < a tenth of the longer side) = 0.05.
    name : str, optional
        Name of the term. Default: the names of the columns, joined by an underscore.

    Examples
    --------
    >>> places = {"x": [0.0, 2.0, 0.5], "y": [0.0, 1.0, 0.25]}
    >>> term = Matern(("x", "y"), spacing=0.5, extension=1.0).bind(places)
    >>> term.size, {dim: len(labels) for dim, labels in term.coords.items()}
    (63, {'x_y_x': 5, 'x_y_y': 3})
    """

    spacing: float | None = None
    bounds: Any = None
    extension: float | None = None

    hyperparameters: ClassVar[Mapping[str, Hyperparameter]] = MappingProxyType({"sd": SD, "range": RANGE})

    def bind(self, data: Any = None, unit: float = 1.0, location: float = 0.0) -> Any:
        lattice = self._make_lattice(self._places(self.column, data))
        laplacian = lattice.laplacian()
        bases = eye_array(laplacian.shape[0]), laplacian, laplacian @ laplacian
        structure = LatticeStructure(bases, effect=lattice.selection(), lattice=lattice)
        nodes = np.stack(np.meshgrid(lattice.axis(0), lattice.axis(1), indexing="ij"), axis=-1).reshape(-1, 2)
        return self._with_structure(nodes, structure, data, unit)

    def structure(self, levels: np.ndarray) -> Structure:
        raise NotImplementedError("the structure of a lattice depends on its spacing and margin, not on levels")

    @property
    def lattice(self) -> Lattice:
        """The lattice of a term that has data."""
        structure: Any = self.state.structure
        return structure.lattice

    def coefficients(self, *, sd: float, range: float) -> np.ndarray:  # noqa: A002
        a, scale = self._scaled(sd, range)
        return np.array([scale * a * a, 2 * scale * a, scale])

    def log_determinant(self, *, sd: float, range: float) -> float:  # noqa: A002
        a, scale = self._scaled(sd, range)
        eigenvalues = self.lattice.eigenvalues
        return eigenvalues.size * math.log(scale) + 2.0 * float(np.log(eigenvalues + a).sum())

    def _scaled(self, sd: float, length: float) -> tuple[float, float]:
        """Return a and c in the precision c (a I + L)^2, with the Laplacian L of unit cells."""
        a = 8.0 * (self.lattice.spacing / length) ** 2
        return a, 1.0 / (4.0 * math.pi * a * sd * sd)

    def _resolve(self, prior: Any) -> Any:
        if prior is not None:
            return prior
        lattice = self.lattice
        return pc_range(0.1 * lattice.spacing * (max(lattice.shape) - 1), 0.05)

    def _simulate(self, rng: np.random.Generator, **hyperparameters: float) -> np.ndarray:
        """Draw the field by the cosines that are the eigenvectors of the Laplacian."""
        a, scale = self._scaled(hyperparameters["sd"], hyperparameters["range"])
        eigenvalues = self.lattice.eigenvalues
        amplitudes = rng.standard_normal(eigenvalues.shape) / (math.sqrt(scale) * (eigenvalues + a))
        return np.asarray(idctn(amplitudes, type=2, norm="ortho")).ravel()

    # --- places -------------------------------------------------------------------------------------------------------

    def _places(self, column: Any, data: Any) -> np.ndarray:
        points = self._points(column, data)
        if points.shape[1] != 2:
            raise ValueError(f"Matern has two coordinates, but {points.shape[1]} were given. For one use RW2 or GP.")
        return points

    def _make_lattice(self, points: np.ndarray) -> Lattice:
        """Return the lattice of the places of the data."""
        low, high = self._rectangle(points)
        side = float((high - low).max())
        spacing = side / CELLS if self.spacing is None else positive_number("Matern: spacing", self.spacing)
        margin = side / 4 if self.extension is None else float(as_numbers(self.extension, "Matern: extension"))
        if margin < 0:
            raise ValueError(f"Matern: extension is {margin:g}. Expected a width, 0 or larger.")
        counts = np.ceil((high - low) / spacing - 1e-9) + 1
        border = math.ceil(margin / spacing - 1e-9)
        if np.prod(counts + 2 * border) > MAX_NODES:
            across, along = (f"{each:.0f}" for each in counts + 2 * border)
            raise ValueError(
                f"Matern: the lattice has {across} x {along} nodes, and at most {MAX_NODES} are possible. Give a "
                "larger spacing=, or a smaller extension=."
            )
        shape = int(max(counts[0], 2)), int(max(counts[1], 2))
        return Lattice((float(low[0]), float(low[1])), spacing, shape, border)

    def _rectangle(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the smallest and largest coordinates. Raise if a place is outside of bounds."""
        if self.bounds is None:
            low, high = points.min(axis=0), points.max(axis=0)
            if (high <= low).all():
                raise ValueError("Matern: all rows have the same place. Drop the term, or give bounds=.")
            return low, high
        bounds: Any = as_numbers(self.bounds, "Matern: bounds")
        if bounds.shape != (2, 2) or not (bounds[:, 0] < bounds[:, 1]).all():
            raise ValueError(
                f"Matern: bounds is {self.bounds!r}. Expected ((smallest x, largest x), (smallest y, largest y))."
            )
        low, high = bounds.T
        outside = ((points < low) | (points > high)).any(axis=1)
        if outside.any():
            raise ValueError(
                f"Matern: the places of rows {listed(np.flatnonzero(outside))} are outside of bounds. Give "
                "larger bounds."
            )
        return low, high

    def _design(self, column: Any, data: Any) -> csr_array:
        points, lattice = self._places(column, data), self.lattice
        outside = ~lattice.inside(points)
        if outside.any():
            ends = ", ".join(
                f"{axis} from {lattice.axis(i)[0]:g} to {lattice.axis(i)[-1]:g}" for i, axis in enumerate(self.axes)
            )
            raise ValueError(
                f"{self.name} has no value at the places of rows {listed(np.flatnonzero(outside))}. Its rectangle is "
                f"{ends}. To predict there, give larger bounds= before the fit."
            )
        return lattice.interpolation(points)

    def unseen(self, data: Any) -> np.ndarray:
        return ~self.lattice.inside(self._places(self._new_column, data))

    # --- results ------------------------------------------------------------------------------------------------------

    @property
    def coords(self) -> dict[str, np.ndarray]:
        return {f"{self.name}_{axis}": self.lattice.axis(i) for i, axis in enumerate(self.axes)}

    def effects(self, x: np.ndarray) -> Effects:
        values = times(self.state.structure.effect, x)
        return {self.name: (tuple(self.coords), values.reshape(*values.shape[:-1], *self.lattice.shape))}

    @property
    def about(self) -> str:
        lattice = self.lattice
        nodes = " x ".join(map(str, lattice.shape))
        return (
            f"Matérn field with smoothness 1 at {nodes} nodes with spacing {lattice.spacing:.4g}, and {lattice.border} "
            "more on each side"
        )

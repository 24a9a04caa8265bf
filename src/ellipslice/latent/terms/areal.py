"""Spatial effects of regions: intrinsic autoregression, BYM and BYM2."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import block_array, csc_array, csr_array, eye_array, hstack

from ellipslice.latent.hyperpriors import MIXING, SD, Hyperparameter, MixingPrior
from ellipslice.latent.terms.base import Term
from ellipslice.latent.terms.columns import codes_of, listed
from ellipslice.latent.terms.graph import FORMS, Graph, Intrinsic, as_graph, intrinsic
from ellipslice.latent.terms.scaled import ScaledTerm
from ellipslice.latent.terms.structure import DENSE_LIMIT, Structure, draw_constrained

SMALLEST = float(np.finfo(float).eps)
"""Smallest value of 1 - phi: that of the largest phi below 1."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _Areal(Term):
    """Effects of the regions of a graph. Regions without data keep their effect."""

    graph: Any = None
    regions: Any = None

    _advice_unseen: ClassVar[str] = "Correct the label, or add the region to the graph."

    @functools.cached_property
    def _network(self) -> Graph:
        """The graph of the regions."""
        if self.graph is None:
            raise TypeError(f"{type(self).__name__} requires graph=. {FORMS}")
        return as_graph(self.graph, self.regions)

    @functools.cached_property
    def _field(self) -> Intrinsic:
        """The intrinsic autoregression of the graph."""
        return intrinsic(self._network, self._scaled)

    @property
    def _scaled(self) -> bool:
        return True

    def _find_levels(self, data: Any) -> np.ndarray:
        levels, regions = super()._find_levels(data), self._network.regions
        absent = levels[codes_of(levels, regions) < 0]
        if len(absent):
            advice = "Give regions=: the labels of the rows of a matrix, or all regions."
            if set(map(str, absent)) <= set(map(str, regions)):
                advice = "The labels differ only in type, for example text and numbers. Convert the column."
            raise ValueError(
                f"{self._argument()} has regions that are not in the graph: {listed(absent)}. The regions of the graph "
                f"are: {listed(regions)}. {advice}"
            )
        return regions

    def _draw_field(self, rng: np.random.Generator) -> np.ndarray:
        """Return a draw from the intrinsic autoregression under its constraints."""
        null = np.array(list(self._field.null.values())).reshape(-1, len(self._network.regions))
        return draw_constrained(self._field.base, null, rng)

    def _components(self) -> str:
        """Return the number of regions, components and isolated regions as text."""
        lengths = [len(part) for part in self._network.parts()]
        isolated = lengths.count(1)
        components = f", {len(lengths) - isolated} connected components" if len(lengths) - isolated > 1 else ""
        return f"{sum(lengths)} regions{components}" + (f", {isolated} without neighbours" if isolated else "")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ICAR(_Areal, ScaledTerm):
    """Intrinsic conditional autoregression: neighbouring regions have similar effects.

    Given the others, the effect of a region is Gaussian around the mean of its neighbours. Each connected component has
    a sum of zero. Regions without neighbours have independent effects with standard deviation sd.

    Parameters
    ----------
    column : str or array, shape (rows,)
        Region of each row.
    graph : array, sparse array, DataFrame, list of pairs, mapping, or graph of networkx or libpysal
        Neighbours. A matrix has 1 for neighbours, else 0.
    regions : sequence, optional
        Labels of the rows of a matrix, or all regions if a list of pairs does not contain regions without neighbours.
    prior : distribution of NumPyro, optional
        Prior of sd. Default: P(sd > 1 unit) = 0.01.
    scale_model : bool
        Whether sd^2 is the geometric mean of the variances of each component, as INLA's option `scale.model`.
        Default: True.
    constraint : {"level", "none"}
        "none" leaves the level of each component free, for a model without an intercept. Default: "level".
    name : str, optional
        Name of the term. Default: the name of the column.

    Examples
    --------
    >>> term = ICAR("region", graph=[("a", "b"), ("b", "c")]).bind({"region": ["c", "a", "c"]})
    >>> term.coords["region_level"].tolist(), term.constraints.tolist()
    (['a', 'b', 'c'], [[1.0, 1.0, 1.0]])
    """

    scale_model: bool = True
    constraint: str = "level"

    @property
    def _scaled(self) -> bool:
        return self.scale_model

    def structure(self, levels: np.ndarray) -> Structure:
        if self.constraint not in ("level", "none"):
            raise ValueError(f"ICAR: constraint must be 'level' or 'none', but it is {self.constraint!r}.")
        free = {name.replace("sum to zero", "level"): row for name, row in self._field.null.items()}
        if self.constraint == "none":
            return Structure((self._field.base,), improper=free)
        return Structure((self._field.base,), constraints=self._field.null)

    def constant(self, structure: Structure) -> float:
        return self._field.log_determinant

    @property
    def about(self) -> str:
        scaled = "scaled so that the geometric mean of its variances is sd^2" if self.scale_model else "not scaled"
        return f"intrinsic autoregression of {self._components()}, {scaled}"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BYM(_Areal):
    """Spatial and independent effects of regions, each with its own standard deviation (Besag, York & Mollié 1991).

    The latent elements are the spatial effects, an intrinsic autoregression, and the independent effects. The results
    are their sum "name", "name_structured" and "name_unstructured".

    Parameters
    ----------
    column : str or array, shape (rows,)
        Region of each row.
    graph : array, sparse array, DataFrame, list of pairs, mapping, or graph of networkx or libpysal
        Neighbours. A matrix has 1 for neighbours, else 0.
    regions : sequence, optional
        Labels of the rows of a matrix, or all regions if a list of pairs does not contain regions without neighbours.
    prior : distribution of NumPyro, or mapping with "sd_structured" and "sd_unstructured", optional
        Prior of both standard deviations, or of each. Default: P(sd > 1 unit) = 0.01.
    scale_model : bool
        Whether sd_structured^2 is the geometric mean of the variances of each component, as INLA's option
        `scale.model`. Default: True.
    name : str, optional
        Name of the term. Default: the name of the column.
    """

    scale_model: bool = True

    hyperparameters: ClassVar[Mapping[str, Hyperparameter]] = MappingProxyType(
        {"sd_structured": SD, "sd_unstructured": SD}
    )

    @property
    def _scaled(self) -> bool:
        return self.scale_model

    def structure(self, levels: np.ndarray) -> Structure:
        one, none = eye_array(len(levels), format="csr"), csr_array((len(levels), len(levels)))
        constraints = {
            f"structured effects: {name}": np.concatenate([row, np.zeros(len(levels))])
            for name, row in self._field.null.items()
        }
        return Structure(
            (block_array([[self._field.base, none], [none, none]]), block_array([[none, none], [none, one]])),
            constraints,
            effect=csr_array(hstack([one, one])),
            parts={"structured": csr_array(hstack([one, none])), "unstructured": csr_array(hstack([none, one]))},
        )

    def constant(self, structure: Structure) -> float:
        return self._field.log_determinant

    def coefficients(self, *, sd_structured: float, sd_unstructured: float) -> np.ndarray:
        return np.array([sd_structured**-2, sd_unstructured**-2])

    def log_determinant(self, *, sd_structured: float, sd_unstructured: float) -> float:
        state = self._bound or self.state
        n = len(state.levels)
        return state.constant - 2.0 * ((state.rank - n) * math.log(sd_structured) + n * math.log(sd_unstructured))

    def _simulate(self, rng: np.random.Generator, **hyperparameters: float) -> np.ndarray:
        independent = hyperparameters["sd_unstructured"] * rng.standard_normal(len(self.state.levels))
        return np.concatenate([hyperparameters["sd_structured"] * self._draw_field(rng), independent])

    @property
    def about(self) -> str:
        scaled = "scaled to variance 1" if self.scale_model else "not scaled"
        return f"BYM: sum of spatial and independent effects of {self._components()}, spatial part {scaled}"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BYM2(_Areal):
    """Spatial and independent effects of regions in one term: sd (sqrt(1 - phi) v + sqrt(phi) u).

    v are independent standard normals, and u is an intrinsic autoregression scaled to variances with geometric mean 1
    (Riebler et al. 2016). phi is the proportion of the variance that is spatial. The latent elements are the total
    effects, and u, whose results are named "name" and "name_structured".

    Parameters
    ----------
    column : str or array, shape (rows,)
        Region of each row.
    graph : array, sparse array, DataFrame, list of pairs, mapping, or graph of networkx or libpysal
        Neighbours. A matrix has 1 for neighbours, else 0.
    regions : sequence, optional
        Labels of the rows of a matrix, or all regions if a list of pairs does not contain regions without neighbours.
    prior : distribution of NumPyro, or mapping with "sd" and "phi", optional
        Prior of sd, or of both. Default: P(sd > 1 unit) = 0.01, and phi uniform on (0, 1). `pc_mixing` is the
        penalised-complexity prior of phi.
    name : str, optional
        Name of the term. Default: the name of the column.

    Examples
    --------
    >>> term = BYM2("region", graph=[("a", "b"), ("b", "c")]).bind({"region": ["c", "a", "c"]})
    >>> term.size, list(term.priors), list(term.effects(np.zeros(6)))
    (6, ['sd', 'phi'], ['region', 'region_structured'])
    """

    hyperparameters: ClassVar[Mapping[str, Hyperparameter]] = MappingProxyType({"sd": SD, "phi": MIXING})

    def structure(self, levels: np.ndarray) -> Structure:
        one, none = eye_array(len(levels), format="csr"), csr_array((len(levels), len(levels)))
        bases = ([[one, none], [none, none]], [[none, one], [one, none]], [[none, none], [none, one]])
        field = block_array([[none, none], [none, self._field.base]])
        constraints = {
            f"structured effects: {name}": np.concatenate([np.zeros(len(levels)), row])
            for name, row in self._field.null.items()
        }
        return Structure(
            (*(csc_array(block_array(each)) for each in bases), field),
            constraints,
            effect=csr_array(hstack([one, none])),
            parts={"structured": csr_array(hstack([none, one]))},
        )

    def constant(self, structure: Structure) -> float:
        return self._field.log_determinant

    def coefficients(self, *, sd: float, phi: float) -> np.ndarray:
        rest = max(1.0 - phi, SMALLEST)
        return np.array([1.0 / (sd * sd * rest), -math.sqrt(phi) / (sd * rest), phi / rest, 1.0])

    def log_determinant(self, *, sd: float, phi: float) -> float:
        state = self._bound or self.state
        rest = max(1.0 - phi, SMALLEST)
        return state.constant - len(state.levels) * (2.0 * math.log(sd) + math.log(rest))

    def _resolve(self, prior: Any) -> Any:
        if not isinstance(prior, MixingPrior):
            return prior
        from ellipslice.latent.mixing_distribution import PCMixing

        size = len(self.state.levels)
        if not self._field.null:
            raise ValueError(
                "pc_mixing requires a graph with neighbours, but no region has one. Use IID instead of BYM2."
            )
        if size > DENSE_LIMIT:
            raise ValueError(
                f"pc_mixing requires the eigenvalues of a graph with {size} regions, and at most {DENSE_LIMIT} are "
                "possible. Use a Beta or Uniform distribution of numpyro.distributions for phi."
            )
        values = np.linalg.eigvalsh(self._field.base.toarray())
        zero = np.arange(size) < len(self._field.null)
        return PCMixing(np.where(zero, 0.0, 1.0 / np.where(zero, 1.0, values)), prior.u, prior.probability)

    def _simulate(self, rng: np.random.Generator, **hyperparameters: float) -> np.ndarray:
        sd, phi, n = hyperparameters["sd"], hyperparameters["phi"], len(self.state.levels)
        u = self._draw_field(rng)
        return np.concatenate([sd * (math.sqrt(1.0 - phi) * rng.standard_normal(n) + math.sqrt(phi) * u), u])

    @property
    def about(self) -> str:
        return f"BYM2: spatial and independent effects of {self._components()}, spatial part scaled to variance 1"

"""Graphs of regions from matrices, lists of edges, mappings and the graphs of other packages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array, csc_array, csr_array, diags_array, issparse
from scipy.sparse.csgraph import connected_components

from ellipslice.checks import as_numbers
from ellipslice.latent.terms.columns import as_index, levels_of, listed
from ellipslice.latent.terms.generalised import GeneralisedInverse

FORMS = (
    "Give a symmetric matrix of neighbours, a list of pairs of regions, a mapping from each region to its neighbours, "
    "or a graph of networkx or libpysal."
)


class Graph(NamedTuple):
    """A graph of regions."""

    regions: np.ndarray
    """Labels, in the order of the rows of `weights`."""
    weights: Any
    """Weights between neighbours, sparse, symmetric, 0 on the diagonal. Shape (regions, regions)."""

    def parts(self) -> list[np.ndarray]:
        """Return the regions of each connected component, as sorted indices."""
        count, part = connected_components(self.weights, directed=False)
        return [np.flatnonzero(part == each) for each in range(count)]


def as_graph(graph: Any, regions: Any = None) -> Graph:
    """Return a graph in one of the forms that users have as a `Graph`. Raise if it is none, or not symmetric.

    Parameters
    ----------
    graph : array, sparse array, DataFrame, list of pairs, mapping, or graph of networkx or libpysal
        Weights of neighbours, 1 if they are neighbours; or pairs of neighbours, each given once.
    regions : sequence, optional
        Labels of all regions: for a matrix in the order of its rows. With a list of pairs they include regions without
        neighbours. Default: 0, 1, ... for a matrix, its index for a DataFrame, and the labels of all edges.
    """
    labels = None if regions is None else as_index(_labels(regions), "regions")
    if labels is not None and len(set(labels.tolist())) < len(labels):
        raise ValueError("regions has a label twice. Give every region once.")
    if not isinstance(graph, Mapping) and isinstance(getattr(graph, "neighbors", None), Mapping):
        graph = graph.neighbors  # libpysal
    if isinstance(graph, Mapping):
        return _from_mapping(graph, labels)
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):
        return _from_edges(
            list(graph.edges), as_index(_labels(list(graph.nodes)), "graph") if labels is None else labels
        )
    if issparse(graph) or (hasattr(graph, "shape") and graph.shape[0] == graph.shape[-1]):
        return _from_matrix(graph, labels)
    if hasattr(graph, "shape") and len(graph.shape) == 2 and graph.shape[1] == 2:
        return _from_edges(np.asarray(graph).tolist(), labels)
    if isinstance(graph, Iterable) and not isinstance(graph, str) and not hasattr(graph, "shape"):
        pairs = list(graph)
        if all(isinstance(each, Iterable) and not isinstance(each, str) and len(list(each)) == 2 for each in pairs):
            return _from_edges(pairs, labels)
        if all(isinstance(each, Iterable) and len(list(each)) == len(pairs) for each in pairs):
            return _from_matrix(np.asarray(pairs), labels)
    raise TypeError(f"graph is of type {type(graph).__name__} and cannot be read. {FORMS}")


def _labels(values: Any) -> np.ndarray:
    """Return labels as an array with one axis, also if the labels are tuples."""
    values = list(values)
    if any(isinstance(each, tuple) for each in values):
        raise TypeError(f"graph has the region {values[0]!r}. Expected numbers or texts as labels of regions.")
    return np.asarray(values)


def _from_matrix(matrix: Any, labels: np.ndarray | None) -> Graph:
    if labels is None:
        labels = as_index(matrix.index, "graph") if hasattr(matrix, "index") else np.arange(matrix.shape[0])
    weights: Any = csr_array(matrix, dtype=np.float64) if issparse(matrix) else csr_array(as_numbers(matrix, "graph"))
    if weights.ndim != 2 or weights.shape != (len(labels), len(labels)):
        raise ValueError(
            f"graph has shape {weights.shape}, but there are {len(labels)} regions. Expected a square matrix."
        )
    weights.eliminate_zeros()
    if not np.isfinite(weights.data).all() or (weights.data < 0).any():
        raise ValueError("graph has weights that are negative or not finite. Use 1 for neighbours, else 0.")
    if weights.diagonal().any():
        region = labels[np.flatnonzero(weights.diagonal())[0]]
        raise ValueError(f"graph: region {region} is its own neighbour. Set the diagonal to 0.")
    gap = abs(weights - weights.T).tocoo()
    if gap.nnz and gap.data.max() > 1e-10 * weights.data.max():
        worst = int(np.argmax(gap.data))
        i, j = gap.coords[0][worst], gap.coords[1][worst]
        raise ValueError(
            f"graph is not symmetric: from {labels[i]} to {labels[j]} it has {weights[i, j]:g}, but from {labels[j]} "
            f"to {labels[i]} {weights[j, i]:g}. Use the maximum of the matrix and its transpose."
        )
    return Graph(labels, weights)


def _from_mapping(graph: Mapping[Any, Any], labels: np.ndarray | None) -> Graph:
    labels = as_index(_labels(graph), "graph") if labels is None else labels
    for region, neighbours in graph.items():
        for other in neighbours:
            if other in graph and region not in graph[other]:
                raise ValueError(
                    f"graph is not symmetric: {other} is a neighbour of {region}, but {region} is not a neighbour of "
                    f"{other}. Add it."
                )
    return _from_edges([(region, other) for region in graph for other in graph[region]], labels)


def _from_edges(edges: list[Any], labels: np.ndarray | None) -> Graph:
    pairs = [tuple(each)[:2] for each in edges]
    if labels is None:
        if not pairs:
            raise ValueError("graph has no edge, so its regions are unknown. Give regions=, a list of all regions.")
        labels = levels_of(_labels([each for pair in pairs for each in pair]), "graph")
    position = {each: i for i, each in enumerate(labels.tolist())}
    absent = list(dict.fromkeys(each for pair in pairs for each in pair if each not in position))
    if absent:
        raise ValueError(f"graph has edges of {listed(absent)}, which are not among its regions: {listed(labels)}.")
    loops = [a for a, b in pairs if a == b]
    if loops:
        raise ValueError(f"graph: region {loops[0]} is its own neighbour. Remove this edge.")
    size = len(labels)
    codes = np.array([[position[each] for each in pair] for pair in pairs], dtype=np.int64).reshape(len(pairs), 2)
    rows, columns = np.concatenate([codes, codes[:, ::-1]]).T
    weights = csr_array(coo_array((np.ones(len(rows)), (rows, columns)), (size, size)))
    weights.sum_duplicates()
    weights.data[:] = 1.0  # an edge may be given in both directions
    return Graph(labels, weights)


class Intrinsic(NamedTuple):
    """The intrinsic autoregression of a graph, with isolated regions as independent effects of variance 1."""

    base: Any
    """Precision, sparse, shape (regions, regions)."""
    null: dict[str, np.ndarray]
    """Indicator of each connected component with at least two regions."""
    log_determinant: float
    """Log generalised determinant of the precision."""


def intrinsic(graph: Graph, scale_model: bool) -> Intrinsic:
    """Return the intrinsic autoregression of a graph. If scaled, each component has variances of geometric mean 1.

    The treatment of components and isolated regions is that of Freni-Sterrantino, Ventrucci & Rue (2018).
    """
    degree = np.asarray(graph.weights.sum(axis=1)).ravel()
    laplacian = csc_array(diags_array(np.where(degree > 0, degree, 1.0)) - graph.weights)
    parts = [part for part in graph.parts() if len(part) > 1]
    factor, null, total = np.ones(len(degree)), {}, 0.0
    for part in parts:
        inverse = GeneralisedInverse(laplacian[part][:, part], np.ones((1, len(part))))
        scale = float(np.exp(np.log(inverse.variances()).mean())) if scale_model else 1.0
        factor[part] = scale
        total += inverse.log_determinant + (len(part) - 1) * np.log(scale)
        row = np.zeros(len(degree))
        row[part] = 1.0
        first = graph.regions[part[0]]
        null["sum to zero" if len(parts) == 1 else f"sum to zero in the component of {first}"] = row
    root = diags_array(np.sqrt(factor))  # factors are equal within a component
    return Intrinsic(csc_array(root @ laplacian @ root), null, float(total))

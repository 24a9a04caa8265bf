"""Graphs of regions from files: edge lists (CSV), GAL and GeoJSON."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ellipslice.apps.fits.table import Table

Graph = dict[Any, list[Any]]
"""Neighbours of each region. Labels are whole numbers if all are, otherwise texts."""

GEOJSON = (".geojson", ".json")


def split_option(option: str) -> tuple[str, str]:
    """Return the name and the file of NAME=FILE. Raise if it has another form."""
    name, equals, file = option.partition("=")
    if not (equals and file and name.isidentifier()):
        raise ValueError(f"--graph must be NAME=FILE, for example W=edges.csv, but it is {option!r}.")
    return name, file


def read_graph(file: str) -> Graph:
    """Return the graph in a file: an edge list (CSV), GAL, or GeoJSON (FILE:PROPERTY)."""
    before, _, after = file.rpartition(":")
    named = Path(before).suffix.lower() in GEOJSON
    path = Path(before if named else file)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path} for --graph. Check the path.")
    suffix = path.suffix.lower()
    if suffix in GEOJSON:
        return with_numbers(_read_geojson(path, after if named else None))
    return with_numbers(_read_gal(path) if suffix == ".gal" else _read_edges(path))


def with_numbers(neighbours: Mapping[str, Iterable[str]]) -> Graph:
    """Return a graph with whole numbers as labels if all labels are whole numbers, like a column of a table."""
    plain = {region: sorted(set(others)) for region, others in neighbours.items()}
    if all(region.lstrip("+-").isdecimal() for region in plain):
        return {int(region): [int(other) for other in others] for region, others in plain.items()}
    return dict(plain)


def as_json(graphs: Mapping[str, Graph]) -> bytes:
    """Return graphs by name as the content of a JSON file."""
    return json.dumps({name: list(graph.items()) for name, graph in graphs.items()}).encode()


def from_json(content: bytes) -> dict[str, Graph]:
    """Return the graphs that `as_json` wrote."""
    return {name: dict(map(tuple, pairs)) for name, pairs in json.loads(content).items()}


def _read_edges(path: Path) -> dict[str, set[str]]:
    table = Table(path)
    if len(table.names) != 2:
        raise ValueError(
            f"{path} has {len(table.names)} columns, but a list of edges has two, with one pair of neighbours per row. "
            "The first line must name the columns. Files of other forms end in .gal or .geojson."
        )
    rows = table.frame(table.names).astype(str)
    return _symmetric(rows.itertuples(index=False), ())


def _symmetric(edges: Iterable[Sequence[str]], regions: Iterable[str]) -> dict[str, set[str]]:
    """Return the neighbours of each region from a list of pairs, each given once or in both directions."""
    found: dict[str, set[str]] = {region: set() for region in regions}
    for one, other in edges:
        found.setdefault(one.strip(), set()).add(other.strip())
        found.setdefault(other.strip(), set()).add(one.strip())
    return found


def _read_gal(path: Path) -> dict[str, list[str]]:
    """Return the graph of a GAL file: a line with the number of regions, then for each its neighbours."""
    wrong = (
        f"{path} is not a GAL file: {{}}. Expected the number of regions, then for each region a line with its label "
    )
    wrong += "and its number of neighbours, and a line with their labels."
    header, _, body = path.read_text(encoding="utf-8-sig").partition("\n")
    fields, words, found = header.split(), iter(body.split()), {}
    size = fields[1] if len(fields) == 4 else fields[0] if len(fields) == 1 else ""
    if not size.isdecimal():
        raise ValueError(wrong.format(f"its first line is {header.strip()[:40]!r}"))
    for region in words:
        count = next(words, "")
        if not count.isdecimal():
            raise ValueError(wrong.format(f"after the region {region!r} it has {count!r}"))
        if region in found:
            raise ValueError(wrong.format(f"it has the region {region!r} twice"))
        found[region] = list(itertools.islice(words, int(count)))
    if len(found) != int(size):
        raise ValueError(wrong.format(f"it has {len(found)} regions, but its first line states {size}"))
    return found


def _read_geojson(path: Path, name: str | None) -> dict[str, set[str]]:
    """Return the graph of the polygons of a GeoJSON file. Regions that share a border point are neighbours."""
    try:
        features = json.loads(path.read_bytes())["features"]
        polygons = [(feature["properties"] or {}, list(_points(feature["geometry"]))) for feature in features]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(
            f"{path} is not a GeoJSON file with a FeatureCollection of Polygon or MultiPolygon. Check the file."
        ) from None
    properties = list(dict.fromkeys(key for own, _ in polygons for key in own))
    if name is None or any(own.get(name) is None for own, _ in polygons):
        problem = "needs the property with the names of regions" if name is None else f"has regions without {name!r}"
        raise ValueError(
            f"{path} {problem}. Its properties are: {', '.join(properties)}. Give --graph W={path}:PROPERTY."
        )
    at: dict[tuple[float, ...], set[str]] = {}
    for own, points in polygons:
        for point in points:
            at.setdefault(point, set()).add(str(own[name]))
    edges = {pair for regions in at.values() for pair in itertools.combinations(sorted(regions), 2)}
    return _symmetric(sorted(edges), (str(own[name]) for own, _ in polygons))


def _points(geometry: Any) -> Iterator[tuple[float, ...]]:
    """Yield the corners of a polygon, or of several."""
    parts = {"Polygon": [geometry["coordinates"]], "MultiPolygon": geometry["coordinates"]}[geometry["type"]]
    for ring in itertools.chain.from_iterable(parts):
        yield from ((float(point[0]), float(point[1])) for point in ring)

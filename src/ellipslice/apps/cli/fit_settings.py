"""The settings of `ellipslice fit`, from its options. Options that do not belong together raise an error."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ellipslice.apps.fits import FitSettings
    from ellipslice.apps.fits.formula import FormulaSettings

PROCESS_OPTIONS = (
    "x", "y", "events", "likelihood", "kernel", "length_scale", "amplitude", "noise_scale", "dispersion", "mean",
    "window", "cells",
)  # fmt: skip
"""Options of Gaussian processes, which fits with --formula do not have."""

FORMULA_OPTIONS = ("family", "link", "graph")
"""Options that require --formula."""

INSTEAD = {
    "x": "Write the column into the formula.",
    "y": "Write the response before ~ in the formula.",
    "likelihood": "Give --family instead.",
    "kernel": "Write a term into the formula, for example gp(column, kernel='matern52').",
}
"""Advice for some options of Gaussian processes that were given with --formula."""


def make_settings(context: typer.Context) -> FitSettings | FormulaSettings:
    """Return the settings from the options of `ellipslice fit`. Raise if they do not belong together."""
    given = dict(context.params)
    _check_options(context, given["formula"])
    run = {name: given[name] for name in ("draws", "chains", "effective_sample_size", "rhat", "max_seconds")}
    run["seed"] = secrets.randbits(32) if given["seed"] is None else given["seed"]
    if given["warmup"] is not None:
        run["warmup"] = given["warmup"]
    return _process_settings(given, run) if given["formula"] is None else _formula_settings(given, run)


def _check_options(context: typer.Context, formula: str | None) -> None:
    """Raise if an option was given that this kind of fit does not have."""
    for name in FORMULA_OPTIONS if formula is None else PROCESS_OPTIONS:
        source = context.get_parameter_source(name)
        if source is not None and not source.name.startswith("DEFAULT"):
            option = "--" + name.replace("_", "-")
            if formula is None:
                raise ValueError(f"{option} was given without --formula. Give --formula 'y ~ x', or leave it out.")
            instead = INSTEAD.get(name, "Leave it out.")
            raise ValueError(f"{option} was given together with --formula, and is for Gaussian processes. {instead}")


def _formula_settings(given: Mapping[str, Any], run: Mapping[str, Any]) -> FormulaSettings:
    from ellipslice.apps.fits.formula import FormulaSettings
    from ellipslice.apps.fits.formula.graphs import split_option

    own = {name: given[name] for name in ("formula", "link", "exposure", "trials")}
    graphs = tuple(split_option(text) for text in given["graph"] or ())
    return FormulaSettings(**own, family=given["family"] or "gaussian", graphs=graphs, **run)


def _process_settings(given: Mapping[str, Any], run: Mapping[str, Any]) -> FitSettings:
    from ellipslice.apps.fits import FitSettings
    from ellipslice.apps.fits.settings import normalise_name

    x, y, events = given["x"], given["y"], given["events"]
    if events and (x or y):
        raise ValueError("--events was given together with --x or --y. Give either --events, or --x and --y.")
    if x and not y:
        raise ValueError("--x was given without --y. Give the column with the observations, for example --y count.")
    if y and not x:
        raise ValueError("--y was given without --x. Give the column with the input, for example --x time.")
    names = ("amplitude", "noise_scale", "dispersion", "mean", "exposure", "trials")
    return FitSettings(
        inputs=tuple(events or x or ()),
        target=y,
        likelihood=normalise_name(given["likelihood"] or ("poisson" if events else "gaussian")),
        kernel=normalise_name(given["kernel"]),
        length_scale=_tuple(given["length_scale"]),
        window=tuple(_pair(text) for text in given["window"]) if given["window"] else None,
        cells=_tuple(given["cells"]),
        **{name: given[name] for name in names},
        **run,
    )


def _tuple(values: Any) -> tuple[Any, ...] | None:
    return tuple(values) if values else None


def _pair(text: str) -> tuple[float, float]:
    parts = text.split(",")
    try:
        low, high = (float(part) for part in parts)
    except ValueError:
        raise ValueError(f"--window must be two numbers LOW,HIGH, but it is {text!r}.") from None
    return low, high

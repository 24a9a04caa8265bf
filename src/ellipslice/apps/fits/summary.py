"""The summary of a fit: as JSON for scripts, and as text."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.diagnostics import check_convergence

if TYPE_CHECKING:
    from ellipslice.apps.fits.folder import RunFolder


def summarise(folder: RunFolder, fit: Any) -> dict[str, Any]:
    """Return the content of the JSON object that `--json` prints."""
    attrs, sizes, kind = fit.tree.attrs, fit.tree["posterior"].sizes, folder.kind
    diagnostics = [worst_diagnostics(values) for values in kind.latents(fit)]
    latent = {
        "effective_sample_size": _plain(_worst(min, [size for size, _ in diagnostics])),
        "rhat": _plain(_worst(max, [rhat for _, rhat in diagnostics])),
    }
    total = measures(fit.tree["sample_stats"].to_dataset().total_log_likelihood.values)
    report = check_convergence(fit.tree)
    return {
        "folder": str(folder.path),
        "data": {name: folder.metadata["data"][name] for name in ("file", "sha256", "rows")},
        "model": kind.describe(folder),
        "known": kind.known(folder),
        "chains": sizes["chain"],
        "draws": sizes["draw"],
        "stopped_by": attrs["stopped_by"],
        "seconds": attrs["sampling_time"],
        "evaluations_per_update": attrs["evaluations"] / max(1, attrs["updates"]),
        "parameters": {name: measures(values) for name, values in kind.parameters(folder, fit).items()},
        "total_log_likelihood": total,
        "parameter_name": kind.parameter_name,
        "latent_name": kind.latent_name,
        "latent": latent,
        "converged": report.converged,
        "convergence_report": str(report).splitlines(),
    }


def _worst(choose: Callable[[list[float]], float], values: list[float]) -> float:
    """Return the smallest or largest of the values that are numbers; NaN if there are none."""
    known = [value for value in values if not math.isnan(value)]
    return choose(known) if known else math.nan


def measures(values: np.ndarray) -> dict[str, float | None]:
    """Return moments, quantiles and diagnostics of one quantity, shape (chains, draws)."""
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    size, worst = worst_diagnostics(values)
    found = {"mean": values.mean(), "sd": values.std(), "q05": low, "median": middle, "q95": high}
    return {name: _plain(value) for name, value in (found | {"effective_sample_size": size, "rhat": worst}).items()}


def worst_diagnostics(values: np.ndarray) -> tuple[float, float]:
    """Return the smallest effective sample size (bulk or tail) and the largest R-hat; NaN if there are too few draws.

    Parameters
    ----------
    values : array, shape (chains, draws, ...)
        Constant elements are ignored.
    """
    import xarray
    from arviz_stats import ess, rhat  # pyright: ignore[reportPrivateImportUsage]

    flat = values.reshape(*values.shape[:2], -1).astype(np.float64)
    flat = flat[:, :, np.ptp(flat, axis=(0, 1)) > 0]
    if flat.shape[1] < 4 or not flat.shape[2]:
        return math.nan, math.nan
    trace = xarray.DataArray(flat, dims=("chain", "draw", "value"))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        size = min(float(ess(trace, method=method).min()) for method in ("bulk", "tail"))
        return size, float(rhat(trace).max()) if len(values) > 1 else math.nan


def _plain(value: Any) -> float | None:
    """Return a float, or None if it is not finite, because JSON has no NaN."""
    return float(value) if math.isfinite(value) else None


def format_summary(found: dict[str, Any]) -> str:
    """Return the summary as text: a table and the convergence report."""
    lines = [f"{found['data']['file']}, {found['data']['rows']:,} rows. {found['model']}", ""]
    rows = [[found["parameter_name"], "mean", "sd", "5 %", "95 %", "effective sample size", "R-hat"]]
    for name, one in [*found["parameters"].items(), ("log-likelihood", found["total_log_likelihood"])]:
        numbers = [short(one[key]) for key in ("mean", "sd", "q05", "q95")]
        rows.append([name, *numbers, *format_diagnostics(one)])
    rows.append([f"{found['latent_name']} (worst)", "", "", "", "", *format_diagnostics(found["latent"])])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    return "\n".join([*lines, "", *found["convergence_report"]])


def format_diagnostics(one: dict[str, Any]) -> list[str]:
    """Return effective sample size and R-hat as text."""
    size, rhat = one["effective_sample_size"], one["rhat"]
    return ["-" if size is None else f"{size:,.0f}", "-" if rhat is None else f"{rhat:.3f}"]


def short(value: float | None) -> str:
    """Return a number as text with four significant digits; with all its digits if it is between 1e4 and 1e9."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"

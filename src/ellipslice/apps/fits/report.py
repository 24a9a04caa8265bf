"""The report of a fit: one self-contained HTML page."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from typing import Any

from ellipslice.apps.fits.folder import RunFolder
from ellipslice.apps.fits.plots import as_png, traces
from ellipslice.apps.fits.summary import format_diagnostics, short, summarise
from ellipslice.store.journal import replace

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.of { color: #5f6670; margin-top: .2rem; }
img { max-width: 100%; height: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { padding: .2rem .8rem .2rem 0; text-align: right; border-bottom: 1px solid #e4e7eb; }
th:first-child, td:first-child { text-align: left; }
th { font-weight: 600; color: #5f6670; }
.words td { text-align: left; vertical-align: top; overflow-wrap: anywhere; }
.words td:first-child { white-space: nowrap; color: #5f6670; }
.convergence { border-left: 4px solid; padding: .4rem .9rem; background: #f5f7f9; }
.good { border-color: #2e8b57; } .poor { border-color: #c77700; }
pre { background: #f5f7f9; padding: .6rem .9rem; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
footer { color: #5f6670; font-size: .85rem; margin-top: 2.5rem; }
"""

TRACE_NOTE = (
    "If the chains have converged, their traces overlap and show no trend. The histograms on the right show the draws "
    "of each chain."
)


def write_report(folder: RunFolder, fit: Any, out: Path | None = None) -> Path:
    """Write the report to `out` and return its path. Default: report.html in the folder."""
    path = folder.path / "report.html" if out is None else out
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, page(folder, fit).encode())
    return path


def page(folder: RunFolder, fit: Any) -> str:
    """Return the page. Texts from the user's files, such as names of columns, are escaped."""
    found, metadata = summarise(folder, fit), folder.metadata
    title = f"{metadata['data']['file']}: {found['model']}"
    size = f"{found['chains']} chains of {found['draws']:,} draws, {found['seconds']:,.1f} s"
    parts = [
        f"<h1>{escape(metadata['data']['file'])}</h1>",
        f'<p class="of">{escape(found["model"])} · {found["data"]["rows"]:,} rows · {size}</p>',
        "" if folder.kind.no_plot(folder) else _image(folder.kind.draw(folder, fit, None), "plot of the fit"),
        "<h2>Convergence</h2>",
        f'<p class="convergence {"good" if found["converged"] else "poor"}">',
        "<br>".join(escape(line) for line in found["convergence_report"]),
        "</p>",
        f"<h2>{folder.kind.parameter_name.capitalize()}s</h2>",
        _table(found),
        "<h2>Model</h2>",
        *(f"<p>{escape(text)}</p>" for text in folder.kind.model_text(folder)),
        *(
            f"<h2>{escape(heading)}</h2>\n<p>{escape(text)}</p>\n{_image(figure, heading)}"
            for heading, text, figure in folder.kind.checks(folder, fit)
        ),
        "<h2>Trace plots</h2>",
        f"<p>{TRACE_NOTE}</p>",
        _image(traces(folder, fit), "trace plots and histograms of the chains"),
        "<h2>Reproduce this fit</h2>",
        f"<pre>{escape(metadata['command'])}</pre>",
        "<p>With the same seed, versions and type of machine, the draws are bit-identical.</p>",
        _reproduce(folder),
        f"<footer>Started {escape(metadata['created_at'])} with ellipslice {escape(_version(folder))}.</footer>",
    ]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _image(figure: Any, description: str) -> str:
    return f'<img alt="{escape(description)}" src="data:image/png;base64,{base64.b64encode(as_png(figure)).decode()}">'


def _table(found: dict[str, Any]) -> str:
    titles = ("", "mean", "standard deviation", "5 %", "95 %", "effective sample size", "R-hat")
    rows = ["<tr>" + "".join(f"<th>{title}</th>" for title in titles) + "</tr>"]
    for name, one in [*found["parameters"].items(), ("log-likelihood", found["total_log_likelihood"])]:
        cells = [*(short(one[key]) for key in ("mean", "sd", "q05", "q95")), *format_diagnostics(one)]
        rows.append(f"<tr><td>{escape(name)}</td>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    worst = "".join(f"<td>{cell}</td>" for cell in format_diagnostics(found["latent"]))
    name = escape(f"{found['latent_name']}, worst element")
    rows.append(f"<tr><td>{name}</td><td></td><td></td><td></td><td></td>{worst}</tr>")
    return f"<table>{''.join(rows)}</table>"


def _version(folder: RunFolder) -> str:
    return str(folder.metadata["versions"].get("ellipslice", ""))


def _reproduce(folder: RunFolder) -> str:
    metadata = folder.metadata
    versions = ", ".join(f"{name} {number}" for name, number in metadata["versions"].items())
    rows = {"versions": versions, "data": metadata["data"]["file"], "SHA-256 of the data": metadata["data"]["sha256"]}
    rows["seed"] = str(folder.settings.seed)
    lines = [f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows.items()]
    return f'<table class="words">{"".join(lines)}</table>'

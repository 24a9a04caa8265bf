"""`ellipslice explore`: an interactive demonstration of elliptical slice sampling in the browser.

The page is plain HTML, CSS and JavaScript, in the files of this folder. `page` combines them into one file, which needs
no network.

- `page.html`, `style.css`: the page and its style
- `algorithm.js`: the three methods, as lists of events; `noise.js`: their random numbers
- `models.js`: priors and likelihoods; `chain.js`: a run; `field.js`: functions on a grid; `statistics.js`: summaries
- `picture.js`, `unrolled.js`, `charts.js`, `results.js`, `words.js`: plots, charts, table and texts of the page
- `settings.js`, `page.js`: the form, the address and the clock
"""

from __future__ import annotations

import re
import tempfile
import webbrowser
from importlib import resources
from pathlib import Path

__all__ = ["page", "show"]


def page() -> str:
    """Return the interactive page as one HTML text, including style and scripts.

    To embed it in documentation, write it to a file next to the other pages and show that file in an iframe.

    Examples
    --------
    >>> text = page()
    >>> "<title>Elliptical slice sampling" in text, "src=" in text
    (True, False)
    """
    text = _read("page.html")
    text = re.sub(r'<link rel="stylesheet" href="(.*?)">', lambda name: f"<style>\n{_read(name[1])}</style>", text)
    return re.sub(r'<script src="(.*?)"></script>', lambda name: f"<script>\n{_read(name[1])}</script>", text)


def show(out: Path | None, browser: bool) -> str:
    """Write the interactive page to a file and open it in the browser.

    Parameters
    ----------
    out : Path or None
        The HTML file. None: a file in a new temporary folder.
    browser : bool
        Open the page, or only write the file.

    Returns
    -------
    str
        A line for the user with the path of the file.
    """
    path = Path(tempfile.mkdtemp(prefix="ellipslice_")) / "explore.html" if out is None else out
    if path.is_dir():
        raise IsADirectoryError(
            f"--out must be a file, but {path} is a folder. Use for example {path / 'explore.html'}."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(), encoding="utf8")
    if not browser:
        return f"wrote {path}"
    if webbrowser.open(path.resolve().as_uri()):
        return f"opened {path}"
    return f"wrote {path}, but found no browser. Open the file by hand."


def _read(name: str) -> str:
    return resources.files("ellipslice.apps.explore").joinpath(name).read_text(encoding="utf8")

"""`ellipslice explore`: one update of elliptical slice sampling, alive in a browser.

The page is plain HTML, CSS and JavaScript, in files of this folder. `page` makes one file of them, which needs no
network.

- `page.html`, `style.css`: the page and its style
- `algorithm.js`: the three methods, as lists of events; `noise.js`: their random numbers
- `models.js`: what is sampled; `chain.js`: a run; `field.js`: functions on a grid; `statistics.js`: summaries
- `picture.js`, `unrolled.js`, `charts.js`, `results.js`, `words.js`: what the page shows
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
    """The whole page as one HTML text, style and scripts included.

    To put it into documentation, write it beside the other pages and show it in an iframe.

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
    """Write the page to a file, open it in the user's browser if wanted, and say what was done.

    Parameters
    ----------
    out : path, optional
        The file; one in a new folder for temporary files unless given.
    browser : bool
    """
    path = Path(tempfile.mkdtemp(prefix="ellipslice_")) / "explore.html" if out is None else out
    if path.is_dir():
        raise IsADirectoryError(f"out must be a file, but {path} is a folder. Try {path / 'explore.html'}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(), encoding="utf8")
    if not browser:
        return f"wrote {path}"
    if webbrowser.open(path.resolve().as_uri()):
        return f"opened {path}"
    return f"wrote {path}, but found no browser to open it with"


def _read(name: str) -> str:
    return resources.files("ellipslice.apps.explore").joinpath(name).read_text(encoding="utf8")

"""Configuration of Sphinx. `make docs` builds the pages.

myst-nb executes the cells of pages, sphinx-gallery the scripts of `examples/`. An error in either fails the build. To
build in seconds without executing anything, add `-D nb_execution_mode=off -D plot_gallery=0`.
"""

import hashlib
import logging
import os
import shutil
import socket
import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
BUILD = HERE / "_build"
SOURCE = HERE.parent / "src"
sys.path[:0] = [str(HERE), str(HERE / "_extensions")]

project = "ellipslice"
author = "the ellipslice developers"
project_copyright = "the ellipslice developers, MIT licence"
release = version = version_of("ellipslice")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "explorer",
    "families",
    "formulas",
    "library_names",
    "notebooks",
    "progress_lines",
    "redirects",
    "registered",
    "root_files",
    "stored_outputs",
    "type_words",
]
exclude_patterns = ["_build", "_extensions", "_kernel", "gallery/*.ipynb", "gallery/*.py", "gallery/*.md5"]

# --- pages --------------------------------------------------------------------------------------------------------

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Outputs of cells are cached until a cell of the page or any file of the package changes. Pages thus show this version.
_code = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCE.rglob("*.py"))))
nb_execution_mode = "cache"
nb_execution_cache_path = str(BUILD / "cells" / _code.hexdigest()[:12])
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_output_stderr = "remove-warn"  # a warning in a cell fails the build, unless the cell has the tag remove-stderr

# Kernels have their own IPython profile, so that settings of the user who builds the pages have no effect on them.
_profile = BUILD / "ipython" / "profile_default"
_profile.mkdir(parents=True, exist_ok=True)
shutil.copy(HERE / "_kernel" / "ipython_kernel_config.py", _profile)
os.environ["PATH"] = os.pathsep.join(
    [str(Path(sys.executable).parent), os.environ["PATH"]]
)  # cells with `!ellipslice` find the command
os.environ["IPYTHONDIR"] = str(BUILD / "ipython")
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # otherwise the debugger of the kernel warns at every start
os.environ["TTY_COMPATIBLE"] = "0"  # commands print no progress lines
logging.basicConfig(level=logging.WARNING)  # otherwise the theme sets it to INFO for all libraries

# --- reference ----------------------------------------------------------------------------------------------------

default_role = "py:obj"  # `sample` in a docstring is a link if it is a public name, and code otherwise
autodoc_inherit_docstrings = False  # a method is documented where it is first declared
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {name: name for name in ("ArrayLike", "NDArray", "LogLikelihood")}
maximum_signature_line_length = 88
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
toc_object_entries_show_parents = "hide"

# --- links to other projects --------------------------------------------------------------------------------------


def online(host: str) -> bool:
    """Return whether `host` answers within two seconds. Without a network, pages have no links to other projects."""
    try:
        socket.create_connection((host, 443), timeout=2).close()
    except OSError:
        return False
    return True


intersphinx_timeout = 10
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "scipy": ("https://docs.scipy.org/doc/scipy", None),
    "xarray": ("https://docs.xarray.dev/en/stable", None),
    "jax": ("https://docs.jax.dev/en/latest", None),
    "arviz": ("https://python.arviz.org/projects/stats/en/stable", None),
}
if not online("docs.python.org"):
    intersphinx_mapping = {}

# --- examples -----------------------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "download_all_examples": False,
    "min_reported_time": 30,
    "image_srcset": ["2x"],
    "thumbnail_size": (400, 280),
    "copyfile_regex": r".*\.csv",
}

# --- appearance ---------------------------------------------------------------------------------------------------

html_theme = "furo"
html_title = f"ellipslice {release}"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_favicon = "_static/ellipse.svg"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_logo": "ellipse.svg",
    "dark_logo": "ellipse.svg",
    "light_css_variables": {"color-brand-primary": "#0072b2", "color-brand-content": "#0072b2"},
    "dark_css_variables": {"color-brand-primary": "#56b4e9", "color-brand-content": "#56b4e9"},
}
copybutton_exclude = ".linenos, .gp, .go"  # prompts and outputs are not copied
html_math_renderer = "mathml"

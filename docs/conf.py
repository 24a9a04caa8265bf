"""How the pages are built: `make docs`.

Cells of pages are run by myst-nb, the scripts of `examples/` by sphinx-gallery; an error in either fails the build. For
a build in seconds that runs nothing, `-D nb_execution_mode=off -D plot_gallery=0`.
"""

import hashlib
import importlib
import logging
import os
import shutil
import sys
from importlib.metadata import version as version_of
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from latex2mathml.converter import convert as to_mathml
from sphinx.util.docutils import SphinxDirective

from ellipslice.apps import explore

HERE = Path(__file__).parent
BUILD = HERE / "_build"
SOURCE = HERE.parent / "src"

project = "ellipslice"
author = "the ellipslice developers"
project_copyright = "the ellipslice developers, MIT licence"
release = version = version_of("ellipslice")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_kernel", "gallery/*.ipynb", "gallery/*.py", "gallery/*.md5"]

# --- pages --------------------------------------------------------------------------------------------------------

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# What a cell gave is kept until a cell of its page or any file of the package changes: pages always show this version.
_code = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCE.rglob("*.py"))))
nb_execution_mode = "cache"
nb_execution_cache_path = str(BUILD / "cells" / _code.hexdigest()[:12])
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_output_stderr = "remove-warn"  # a warning in a cell fails the build, unless the cell says that it is expected

# Kernels have a profile of their own: the readers' machine has no part in what pages show.
_profile = BUILD / "ipython" / "profile_default"
_profile.mkdir(parents=True, exist_ok=True)
shutil.copy(HERE / "_kernel" / "ipython_kernel_config.py", _profile)
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # of `!ellipslice`
os.environ["IPYTHONDIR"] = str(BUILD / "ipython")
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # else its debugger warns on every start
os.environ["TTY_COMPATIBLE"] = "0"  # no live lines from commands
logging.basicConfig(level=logging.WARNING)  # the theme's colours would set it to INFO, for all libraries

# --- reference ----------------------------------------------------------------------------------------------------

default_role = "py:obj"  # `sample` in a docstring is a link where it can be, and code elsewhere
autodoc_inherit_docstrings = False  # a method is documented where it is first declared
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
toc_object_entries_show_parents = "hide"

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

# --- looks --------------------------------------------------------------------------------------------------------

html_theme = "furo"
html_title = "ellipslice"
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
copybutton_exclude = ".linenos, .gp, .go"  # prompts and what was printed are not copied


html_math_renderer = "mathml"


def write_formula(display: str):
    """What browsers show by themselves: pages need no network, and formulas no script."""

    def visit(translator, node) -> None:
        translator.body.append(to_mathml(node.astext(), display=display))
        raise nodes.SkipNode

    return visit, None


def name_language(app, docname, source) -> None:
    """Cells that are not run have no kernel to say what they are written in."""
    if app.config.nb_execution_mode == "off":
        source[0] = source[0].replace("\n  name: python3\n", "\n  name: python3\n  language: ipython3\n", 1)


class Registered(SphinxDirective):
    """Document every class of a folder's `REGISTERED`: a summary, then each one as `autoclass` does.

    `:public:` is the module by whose name they are documented; the folder itself by default. Other options are those of
    `autoclass`.
    """

    required_arguments = 1
    option_spec = {  # noqa: RUF012  docutils declares it so
        "public": directives.unchanged,
        "members": directives.flag,
        "exclude-members": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the text that the page would otherwise hold."""
        (folder,) = self.arguments
        public = self.options.pop("public", folder)
        names = [f"{public}.{cls.__name__}" for cls in importlib.import_module(folder).REGISTERED]
        options = [f"   :{key}: {value or ''}" for key, value in self.options.items()]
        lines = [".. autosummary::", "   :nosignatures:", "", *(f"   {name}" for name in names), ""]
        for name in names:
            lines += [f".. autoclass:: {name}", *options, ""]
        return self.parse_text_to_nodes("\n".join(lines))


def put_explorer(app, exception) -> None:
    """The page to play with, made anew for every build."""
    if exception is None and app.builder.format == "html":
        Path(app.outdir, "_static", "explore.html").write_text(explore.page(), encoding="utf8")


def setup(app) -> None:
    """What Sphinx calls first."""
    app.add_html_math_renderer("mathml", write_formula("inline"), write_formula("block"))
    app.add_directive("registered", Registered)
    app.connect("source-read", name_language)
    app.connect("build-finished", put_explorer)

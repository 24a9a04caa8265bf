"""The directive `registered`, which documents every class that a folder of the library registers."""

import importlib

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective


class Registered(SphinxDirective):
    """Document every class of a folder's `REGISTERED`: a summary, then each one as `autoclass` does.

    `:public:` is the module by whose name they are documented. Default: the folder itself. Other options are those of
    `autoclass`.
    """

    required_arguments = 1
    option_spec = {  # noqa: RUF012  docutils declares it so
        "public": directives.unchanged,
        "members": directives.flag,
        "exclude-members": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the generated text."""
        (folder,) = self.arguments
        public = self.options.pop("public", folder)
        names = [f"{public}.{cls.__name__}" for cls in importlib.import_module(folder).REGISTERED]
        options = [f"   :{key}: {value or ''}" for key, value in self.options.items()]
        lines = [".. autosummary::", "   :nosignatures:", "", *(f"   {name}" for name in names), ""]
        for name in names:
            lines += [f".. autoclass:: {name}", *options, ""]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("registered", Registered)
    return {"parallel_read_safe": True}

"""Links from the types of parameters lead only to types: in "array, shape (size,)" the word `size` is not a link.

Sphinx looks up every word of a type among all names of the library. A lower-case word would then lead to an attribute
of some class.
"""

import builtins
import re

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.transforms import SphinxTransform

WORD = re.compile(r"[a-z_]+")


class UnlinkWords(SphinxTransform):
    """Replace links from lower-case words in types by their text, unless they are built-in types."""

    default_priority = 500

    def apply(self, **_) -> None:
        """Replace the links of one document."""
        for link in list(self.document.findall(pending_xref)):
            word = link.get("reftarget", "")
            if link.get("reftype") == "class" and WORD.fullmatch(word) and not hasattr(builtins, word):
                link.replace_self(nodes.inline("", link.astext()))


def setup(app) -> dict[str, bool]:
    """Register the transform."""
    app.add_transform(UnlinkWords)
    return {"parallel_read_safe": True}

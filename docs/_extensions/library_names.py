"""Link names of the library in prose to the reference: `es.sample` becomes a link to `ellipslice.sample`."""

import re

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.transforms import SphinxTransform

NAME = re.compile(r"(?:es|ellipslice)\.([A-Za-z_][\w.]*)(?:\(.*\))?", re.DOTALL)


class LinkNames(SphinxTransform):
    """Turn inline code that begins with `es.` or `ellipslice.` into a link. It stays code if there is no target."""

    default_priority = 500

    def apply(self, **_) -> None:
        """Replace the literals of one document."""
        for literal in list(self.document.findall(nodes.literal)):
            match = NAME.fullmatch(literal.astext())
            if match is None or isinstance(literal.parent, pending_xref | nodes.reference | nodes.title):
                continue
            link = pending_xref(
                "",
                literal.deepcopy(),
                refdomain="py",
                reftype="obj",
                reftarget=f"ellipslice.{match[1]}",
                refdoc=self.env.docname,
                refexplicit=True,
                refwarn=False,
            )
            literal.replace_self(link)


def setup(app) -> dict[str, bool]:
    """Register the transform."""
    app.add_transform(LinkNames)
    return {"parallel_read_safe": True}

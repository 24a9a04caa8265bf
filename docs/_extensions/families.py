"""The directive `families`: the table in the docstring of `ellipslice.latent.families`, and the text after it."""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from ellipslice.latent import families


def cells(line: str) -> list[str]:
    """Return the cells of a line of a Markdown table, with code in the markup of reStructuredText."""
    return [cell.strip().replace("`", "``") for cell in line.strip().strip("|").split("|")]


class Families(SphinxDirective):
    """Show the families of responses of latent Gaussian models."""

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the table and of the paragraph that follows it."""
        paragraphs = (families.__doc__ or "").split("\n\n")
        place = next(i for i, each in enumerate(paragraphs) if each.startswith("|"))
        header, _, *rows = map(cells, paragraphs[place].splitlines())
        lines = [".. list-table::", "   :header-rows: 1", ""]
        for row in (header, *rows):
            lines += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(row)]
        lines += ["", paragraphs[place + 1].replace("`", "``")]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("families", Families)
    return {"parallel_read_safe": True}

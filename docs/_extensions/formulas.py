"""Write formulas as MathML, which browsers show without a script and without a network."""

from docutils import nodes
from latex2mathml.converter import convert


def write_formula(display: str):
    """Return the pair of functions by which Sphinx writes a formula, `display` being "inline" or "block"."""

    def visit(translator, node) -> None:
        translator.body.append(convert(node.astext(), display=display))
        raise nodes.SkipNode

    return visit, None


def setup(app) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", write_formula("inline"), write_formula("block"))
    return {"parallel_read_safe": True}

"""Write a page at each earlier address that leads to the present one."""

from pathlib import Path

MOVED = {
    "start": "quickstart",
    "tutorials/coal": "tutorials/event_rates",
    "tutorials/digits": "tutorials/classification",
    "tutorials/cox": "tutorials/spatial_points",
    "tutorials/regression": "tutorials/logistic_regression",
    "which_prior": "how_to/prior_structure",
    "which_move": "how_to/choose_move",
    "reading_diagnostics": "how_to/convergence",
    "strong_likelihood": "how_to/slow_mixing",
    "unknown_parameters": "how_to/hyperparameters",
    "predict": "how_to/predictions",
    "evidence": "how_to/model_comparison",
    "truncated": "how_to/constraints",
    "long_runs": "how_to/checkpoints",
    "cluster": "how_to/parallel",
    "gpu": "how_to/gpu",
    "command_line": "how_to/command_line",
    "coming_from": "integrations/migrate",
    "blackjax": "integrations/blackjax",
    "numpyro": "integrations/numpyro",
    "pymc": "integrations/pymc",
    "scikit_learn": "integrations/scikit_learn",
    "peers": "explanation/alternatives",
    "comparison": "explanation/benchmarks",
    "explore": "explanation/demonstration",
    "paper": "explanation/reproduction",
    "explanation/figure2": "explanation/algorithm",
    "explanation/when_poor": "explanation/slow_mixing",
    "explanation/right": "explanation/correctness",
    "changelog": "reference/changelog",
}

PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Moved</title><meta http-equiv="refresh" content="0; url={url}"></head>
<body><p>This page has moved: <a href="{url}">{url}</a>.</p></body>
</html>
"""


def write_redirects(app, exception) -> None:
    """Write one page for each entry of `MOVED`."""
    if exception is not None or app.builder.format != "html":
        return
    for old, new in MOVED.items():
        url = "../" * old.count("/") + f"{new}.html"
        Path(app.outdir, f"{old}.html").write_text(PAGE.format(url=url), encoding="utf8")


def setup(app) -> dict[str, bool]:
    """Connect to the end of the build."""
    app.connect("build-finished", write_redirects)
    return {"parallel_read_safe": True}

"""Settings of the kernels that run the cells of pages; `conf.py` puts this file where they look for it."""

c = get_config()  # noqa: F821  # IPython gives it
c.Application.log_level = "ERROR"
c.InlineBackend.figure_formats = ["retina"]
c.InlineBackend.rc = {
    "figure.figsize": (7.5, 3.5),
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}

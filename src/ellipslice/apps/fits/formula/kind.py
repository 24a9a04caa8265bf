"""`FormulaKind`: fits of a latent Gaussian model that a formula describes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.apps.fits.formula.graphs import as_json, from_json, read_graph
from ellipslice.apps.fits.formula.model import FormulaProblem, as_csv, read_csv, read_rows
from ellipslice.apps.fits.formula.settings import FormulaSettings, read_settings
from ellipslice.apps.fits.kind import Kept, Kind
from ellipslice.apps.fits.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ellipslice.apps.fits.folder import RunFolder
    from ellipslice.latent.fit import LatentFit

GRAPHS = "graphs.json"
"""File of the folder with the graphs."""

CHECK_NOTE = (
    "The responses are compared with responses that the fitted model draws. If they differ clearly, try another family "
    "or other terms."
)

LAPLACE_NOTE = (
    "The error of the Laplace approximation, which INLA and TMB use: the difference of the posterior means, in "
    "posterior standard deviations. The draws of this fit are from the exact posterior."
)


class FormulaKind(Kind):
    """Fits of a formula."""

    latent_name = "effects"
    parameter_name = "parameter"

    def read_settings(self, asked: Any, path: Path) -> FormulaSettings:
        """Return the settings from JSON."""
        return read_settings(asked, path)

    def keep(self, table: Table, settings: FormulaSettings, at: Table | None) -> Kept:
        """Return the columns that the model uses."""
        rows, used = read_rows(table, settings, response=True)
        graphs = {name: read_graph(file) for name, file in settings.graphs}
        problem = FormulaProblem(settings, rows, graphs)
        if at is not None:
            problem.check_rows(read_rows(at, settings, response=False)[0])
        return Kept(as_csv(rows[used]), len(rows), [], {GRAPHS: as_json(graphs)} if graphs else {})

    def read_data(self, folder: RunFolder) -> Any:
        """Return the content of data.csv as a data frame."""
        return read_csv((folder.path / "data.csv").read_bytes())

    def problem(self, folder: RunFolder) -> FormulaProblem:
        """Return the model of the data."""
        graphs = from_json(folder.other_file(GRAPHS)) if folder.settings.graphs else {}
        return FormulaProblem(folder.settings, folder.data, graphs)

    def check_prediction_table(self, folder: RunFolder, table: Table) -> None:
        """Raise if predictions for the rows of a table are impossible."""
        folder.problem.check_rows(read_rows(table, folder.settings, response=False)[0])

    def describe(self, folder: RunFolder) -> str:
        """Return formula, family and link."""
        family = folder.problem.model.definition.family
        return f"{folder.settings.formula}: {family.name} family, {family.link} link"

    def known(self, folder: RunFolder) -> dict[str, Any]:
        """Return nothing: no hyperparameter can be fixed."""
        return {}

    def parameters(self, folder: RunFolder, fit: LatentFit) -> dict[str, np.ndarray]:
        """Return the draws of the hyperparameters and fixed effects."""
        posterior = fit.tree["posterior"].to_dataset()
        shape = (posterior.sizes["chain"], posterior.sizes["draw"])
        fixed = [name for name, values in posterior.data_vars.items() if str(values.dims[-1]).endswith("_coefficient")]
        table = fit.to_dataframe([*fit.model.hyperparameters, *map(str, fixed)])
        return {str(name): table[name].to_numpy().reshape(shape) for name in table.columns}

    def latents(self, fit: LatentFit) -> list[np.ndarray]:
        """Return the draws of all effects."""
        from ellipslice.apps.fits.formula.plots import effects

        posterior = fit.tree["posterior"].to_dataset()
        return [posterior[name].values for name in effects(fit)]

    def no_plot(self, folder: RunFolder) -> str:
        """Return an empty text: there is always a plot."""
        return ""

    def draw(self, folder: RunFolder, fit: LatentFit, variable: str | None) -> Figure:
        """Return a plot of the effects of all terms, or of one variable of the posterior."""
        from ellipslice.apps.fits.formula.plots import draw_effects

        return draw_effects(fit, variable)

    def predictions(self, folder: RunFolder, fit: LatentFit, at: Table | None) -> tuple[dict[str, Any], Any]:
        """Return the columns that the model uses, and predictions for their rows."""
        if at is None:
            return dict(folder.data), fit.predict(seed=folder.settings.seed)
        rows, used = read_rows(at, folder.settings, response=False)
        return dict(rows[used]), fit.predict(rows, seed=folder.settings.seed)

    def model_text(self, folder: RunFolder) -> list[str]:
        """Return response, terms, constraints and priors."""
        return folder.problem.model.describe().splitlines()

    def checks(self, folder: RunFolder, fit: LatentFit) -> list[tuple[str, str, Figure]]:
        """Return the posterior predictive check and the comparison with Laplace."""
        from ellipslice.apps.fits.formula.plots import draw_check, draw_comparison

        return [
            ("Posterior predictive check", CHECK_NOTE, draw_check(fit, folder.settings.seed)),
            ("Comparison with Laplace", LAPLACE_NOTE, draw_comparison(fit.compare_with_laplace())),
        ]

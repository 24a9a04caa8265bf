"""The settings of a fit of a formula, stored as JSON in its folder."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ellipslice.apps.fits.run_settings import RunSettings, read_fields, text
from ellipslice.apps.fits.settings import normalise_name

NAMED_GRAPH = r"\bgraph\s*=\s*([^\W\d]\w*)"
"""Name of a graph in a formula."""

WITH_TRIALS = ("binomial", "zero-inflated-binomial")
"""Families whose responses are numbers of successes."""


@dataclass(frozen=True)
class FormulaSettings(RunSettings):
    """Settings of a fit of a formula, as given on the command line.

    Attributes
    ----------
    formula : str
    warmup : int
        Default: 50. Chains start near the posterior.
    family : str
        Name of a family of `LatentGaussianModel`.
    link : str or None
        Link function. None: that of the family.
    exposure, trials : str or None
        Columns with the exposure of a count and the number of trials.
    graphs : tuple of (str, str)
        Names and files of the graphs that the formula names.
    """

    formula: str
    family: str = "gaussian"
    link: str | None = None
    exposure: str | None = None
    trials: str | None = None
    graphs: tuple[tuple[str, str], ...] = ()
    warmup: int = field(default=50, kw_only=True)

    @property
    def known(self) -> dict[str, str]:
        """Columns with known values of the family, by the name of the option."""
        given = {"exposure": self.exposure, "trials": self.trials}
        return {name: column for name, column in given.items() if column is not None}

    def check(self) -> None:
        """Raise if a setting is invalid. Messages name the options of the command line."""
        self.check_run()
        given, named = [name for name, _ in self.graphs], re.findall(NAMED_GRAPH, self.formula)
        for name in named:
            if name not in given:
                raise ValueError(
                    f"the formula has graph={name}, but there is no graph of this name. Give --graph {name}=FILE."
                )
        for name in given:
            if given.count(name) > 1:
                raise ValueError(f"--graph {name}=... was given twice. Give each graph once.")
            if name not in named:
                raise ValueError(
                    f"--graph {name}=... was given, but the formula does not use it. Write graph={name} into a term, "
                    f"for example bym2(region, graph={name})."
                )
        family = normalise_name(self.family)
        if family in WITH_TRIALS and self.trials is None:
            raise ValueError(f"--family {self.family} requires --trials, the column with the number of trials.")


def read_settings(found: Any, path: Path) -> FormulaSettings:
    """Return the settings that `as_json` returned as `found`. Raise ValueError if they are anything else."""
    readers: dict[str, Any] = dict.fromkeys(("formula", "family", "link", "exposure", "trials"), text)
    readers["graphs"] = _pairs_of_texts
    return read_fields(FormulaSettings, readers, ("formula", "family", "graphs"), found, path)


def _pairs_of_texts(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple((text(name), text(file)) for name, file in value)

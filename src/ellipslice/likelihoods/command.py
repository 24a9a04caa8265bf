"""How the command line offers a likelihood: `ellipslice fit --likelihood NAME`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True)
class Command:
    """Name, options and link of a likelihood on the command line.

    Attributes
    ----------
    name : str
        Value of `--likelihood`, and the name in the folder of a run.
    data : str
        Observations that it is for, in a few words.
    kind : {"number", "count", "label", "share"}
        A real number; a count; yes or no; successes out of a number of trials.
    link : callable
        Latent value of an average observation: the inverse of `Likelihood.expected`, for an exposure of 1 and one
        trial.
    options : mapping of str to str
        Options of the command line, and the argument of the class that each becomes. An exposure is passed as its
        logarithm.
    required : tuple of str
        Options that must be given.
    average : callable
        Average of the observations, for the mean of the latent function. Default: the arithmetic mean.
    other_names : tuple of str
        Names that are accepted as well.
    aliases : tuple of str
        Names in other packages, without hyphens. They are suggested, not accepted.
    """

    name: str
    data: str
    kind: Literal["number", "count", "label", "share"]
    link: Callable[[Any], Any]
    options: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    average: Callable[[Any], Any] = np.mean
    other_names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names that are accepted."""
        return (self.name, *self.other_names)

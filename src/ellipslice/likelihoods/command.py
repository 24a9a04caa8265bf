"""Description of a likelihood for the command line, `ellipslice fit --likelihood NAME`."""

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
        Value of `--likelihood`. It is also stored in the folder of a run.
    data : str
        Kind of observations in a few words, for the help text.
    kind : {"number", "count", "label", "share"}
        Type of an observation: a real number, a count, a binary label, or successes out of a number of trials.
    link : callable
        Link function: the latent value of an average observation. It is the inverse of `Likelihood.expected` for an
        exposure of 1 and one trial.
    options : mapping of str to str
        Options of the command line, and the argument of the class for each. An exposure is passed as its logarithm.
    required : tuple of str
        Options that must be given.
    average : callable
        Function that averages the observations, for the mean of the latent function. Default: the arithmetic mean.
    other_names : tuple of str
        Other names that `--likelihood` accepts.
    aliases : tuple of str
        Names in other packages, without hyphens. They are not accepted, but the error message suggests `name`.
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
        """All names that `--likelihood` accepts."""
        return (self.name, *self.other_names)

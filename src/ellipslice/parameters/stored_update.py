"""The stored form of a `JointUpdate`: all of it except the joint model, as numbers and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ellipslice.approximations.sites import Sites
from ellipslice.parameters.joint import JointModel
from ellipslice.parameters.pivots import Pivots
from ellipslice.parameters.sites import SiteInterpolator
from ellipslice.parameters.update_settings import GAUSSIANS, JointSettings, ParameterGaussian, Step

if TYPE_CHECKING:
    from ellipslice.parameters.joint_update import JointUpdate

SITES = ("anchors", "metric", "site_linear", "site_precision", "site_origin")
"""Fields that are None if the move has no sites."""

EXPANSIONS = ("f", "expansion_linear", "expansion_precision", "expansion_origin")
"""Fields that are None if the likelihood has no hyperparameters."""


class StoredUpdate(NamedTuple):
    """The numbers and names of a `JointUpdate`. Stores contain them in this order, without those that are None."""

    of_kernel: tuple[int, ...]
    of_likelihood: tuple[int, ...]
    parametrisations: tuple[str, ...]
    latent_updates: int
    mixture: tuple[tuple[int, int], ...]
    """Each step as two numbers: the index of its parametrisation, and that of its Gaussian in `GAUSSIANS`.

    If only element i of u moves, the second number is 2 + i."""
    rates: tuple[float, ...]
    widths: tuple[int, ...]
    """Numbers of columns of low-rank factors. Empty without pivots."""
    order: np.ndarray
    """Order of the inputs, pivots first, shape (latents, n). Empty without pivots."""
    together_centre: np.ndarray
    together_factor: np.ndarray
    likelihood_centre: np.ndarray
    likelihood_factor: np.ndarray
    surrogate_variance: np.ndarray
    anchors: Any = None
    metric: Any = None
    site_linear: Any = None
    site_precision: Any = None
    site_origin: Any = None
    f: Any = None
    expansion_linear: Any = None
    expansion_precision: Any = None
    expansion_origin: Any = None

    @classmethod
    def of(cls, update: JointUpdate) -> StoredUpdate:
        """Return the stored form of a move."""
        settings, elements = update.settings, update.joint.parameters.elements
        pivots, sites = settings.pivots, settings.sites
        stored = cls(
            update.of_kernel,
            update.of_likelihood,
            update.parametrisations,
            update.latent_updates,
            tuple(_as_numbers(step, update.parametrisations, elements) for step in settings.mixture),
            settings.rates,
            pivots.widths if pivots else (),
            pivots.order if pivots else np.zeros((0, 0), int),
            *settings.together,
            *settings.likelihood,
            settings.surrogate_variance,
        )
        if sites is None:
            return stored
        found: dict[str, Any] = dict(zip(SITES, (sites.anchors, sites.metric, *sites.sites), strict=True))
        if sites.expansions is not None:
            found |= dict(zip(EXPANSIONS, (sites.f, *sites.expansions), strict=True))
        return stored._replace(**found)

    @classmethod
    def read(cls, leaves: list[Any], joint: JointModel, inputs: np.ndarray) -> StoredUpdate:
        """Return the stored form from the parts in a store. Raise if they do not fit the model."""
        with_sites = len(cls._fields) - len(EXPANSIONS)
        if len(leaves) not in (with_sites - len(SITES), with_sites, len(cls._fields)):
            raise ValueError(
                f"its move has {len(leaves)} parts, which is not possible for a model with hyperparameters. Use the "
                "model that the store was made with."
            )
        stored = cls(*leaves)
        for name, expected in stored.expected_shapes(joint, inputs).items():
            part = getattr(stored, name)
            if part is not None and np.shape(part) != expected:
                raise ValueError(
                    "the store was made with another model, with other hyperparameters or other inputs. Its "
                    f"{name} has shape {np.shape(part)}, but the model needs {expected}. Use the model and the inputs "
                    "that it was made with."
                )
        return stored

    def expected_shapes(self, joint: JointModel, inputs: np.ndarray) -> dict[str, tuple[int, ...]]:
        """Return the shape that each array must have for this model."""
        values, d, k = (len(joint.latents), len(inputs)), joint.parameters.size, len(self.of_likelihood)
        anchors = np.shape(self.anchors)[:1]
        return {
            "of_kernel": (d - k,),
            "order": values if self.widths else (0, 0),
            "together_centre": (2, d),
            "together_factor": (2, d, d),
            "likelihood_centre": (2, k),
            "likelihood_factor": (2, k, k),
            "surrogate_variance": values,
            "anchors": (*anchors, d),
            "metric": (d, d),
            "site_linear": (*anchors, *values),
            "site_precision": (*anchors, *values),
            "site_origin": values,
            "f": values,
            "expansion_linear": (*anchors, *values),
            "expansion_precision": (*anchors, *values),
            "expansion_origin": values,
        }

    def settings(self, elements: tuple[str, ...]) -> JointSettings:
        """Return the settings of the move; `elements` are the names of the elements of u."""
        return JointSettings(
            ParameterGaussian(self.together_centre, self.together_factor),
            ParameterGaussian(self.likelihood_centre, self.likelihood_factor),
            self.surrogate_variance,
            self._sites(),
            tuple(_as_step(*numbers, self.parametrisations, elements) for numbers in self.mixture),
            self.rates,
            Pivots.in_order(np.asarray(self.order, int), tuple(self.widths)) if self.widths else None,
        )

    def _sites(self) -> SiteInterpolator | None:
        if self.anchors is None:
            return None
        sites = Sites(self.site_linear, self.site_precision, self.site_origin)
        if self.f is None:
            return SiteInterpolator(self.anchors, self.metric, sites)
        expansions = Sites(self.expansion_linear, self.expansion_precision, self.expansion_origin)
        return SiteInterpolator(self.anchors, self.metric, sites, self.f, expansions)

    @property
    def leaves(self) -> list[Any]:
        """The parts that a store contains, in the order of the fields."""
        return [part for part in self if part is not None]


def _as_numbers(step: Step, parametrisations: tuple[str, ...], elements: tuple[str, ...]) -> tuple[int, int]:
    number = 0 if step.parametrisation is None else parametrisations.index(step.parametrisation)
    around = GAUSSIANS.index(step.around) if step.alone is None else len(GAUSSIANS) + elements.index(step.alone)
    return number, around


def _as_step(number: int, around: int, parametrisations: tuple[str, ...], elements: tuple[str, ...]) -> Step:
    parametrisation = parametrisations[number] if parametrisations else None
    if around < len(GAUSSIANS):
        return Step(parametrisation, GAUSSIANS[around])
    return Step(parametrisation, "prior", elements[around - len(GAUSSIANS)])

"""Registries name every class of their folder, and what classes state for stores and the command line is consistent."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

import ellipslice as es
from ellipslice import approximations, likelihoods, moves, priors
from ellipslice.apps.fits.settings import ALIASES, KERNELS, LIKELIHOODS, FitSettings
from ellipslice.latent import terms
from ellipslice.likelihoods import Likelihood, LinearPredictor
from ellipslice.moves import Info, State
from ellipslice.store.serial import known_classes, stored_name

FOLDERS = (priors, likelihoods, moves, terms)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.__name__)
def test_every_public_class_is_registered(folder):
    public = {getattr(folder, name) for name in folder.__all__}
    classes = {cls for cls in public if inspect.isclass(cls) and not inspect.isabstract(cls)}
    assert set(folder.REGISTERED) == classes - {
        LinearPredictor,
        State,
        Info,
        terms.Structure,
    }  # a predictor of f, not an observation model; parts of updates; the matrices of a term
    assert len(set(folder.REGISTERED)) == len(folder.REGISTERED)


def test_every_prior_is_a_name_of_the_package():
    assert {cls.__name__ for cls in priors.REGISTERED} <= set(es.__all__)


def test_names_in_stores():
    """Names in stores are part of the file format. A renamed class keeps its stored name, or FORMAT is raised."""
    assert sorted(known_classes()) == [
        *(
            "AuxiliaryEllipse",
            "ConstrainedSlice",
            "Constraints",
            "Contiguous",
            "ControlVariables",
            "CoordinateGibbs",
            "CoordinateSlice",
        ),
        *("Cycle", "Dense", "Diagonal", "EllipticalSlice", "FromDraws", "Given", "Hamiltonian", "Kronecker"),
        *("LineSlice", "Local", "LowRank", "Markov", "Names", "NealMetropolis", "ParabolaAlongAxis", "Random"),
        *("RandomWalk", "ReferenceSlice", "Sites", "SliceAlongAxis", "SparsePrecision"),
        *("SplitHamiltonian", "Stack", "Stationary", "Sum"),
        *("TruncatedGaussian", "WhiteGaussian", "_AtValues"),
    ]
    parts = (*priors.STORED_PARTS, *moves.STORED_PARTS, *approximations.REGISTERED)
    members = (*priors.REGISTERED, *moves.REGISTERED, *parts)
    assert len({stored_name(cls) for cls in members}) == len(members)


@pytest.mark.parametrize("cls", [cls for cls in likelihoods.REGISTERED if cls.command], ids=lambda cls: cls.__name__)
def test_a_command_fits_its_class(cls: type[Likelihood]):
    command = cls.command
    assert command is not None
    arguments = list(inspect.signature(cls).parameters)
    assert arguments[0] == "y"
    assert set(command.options.values()) <= set(arguments[1:])
    assert set(command.options) <= {field.name for field in fields(FitSettings)}
    assert set(command.required) <= set(command.options)
    assert all(LIKELIHOODS[name] is cls for name in command.names)
    assert all(alias == alias.replace("-", "") and ALIASES[alias] == command.name for alias in command.aliases)


def test_no_two_commands_have_one_name():
    names = [
        name for cls in likelihoods.REGISTERED if cls.command for name in (*cls.command.names, *cls.command.aliases)
    ]
    assert len({*names, *KERNELS}) == len(names) + len(KERNELS)

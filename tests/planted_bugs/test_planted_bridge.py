"""Injected bugs in bridge estimates and in the log marginal likelihood of models: closed forms detect each of them."""

from __future__ import annotations

import numpy as np
import pytest

from ellipslice.bridge import estimator
from ellipslice.latent import posterior as posterior_module
from ellipslice.latent.reference import Reference
from ellipslice.latent.terms.scaled import ScaledTerm
from ellipslice.likelihoods import Gaussian
from ellipslice.parameters.parameters import Parameters
from evidence_models import check, walk_with_known_noise
from statistical.calibrated_bridge import check_calibrated, log_joint
from statistical.monte_carlo import SEED

pytestmark = pytest.mark.statistical


def caught(**options):
    with pytest.raises(AssertionError, match="errors are wrong"):
        check_calibrated(**options)


def test_autocorrelation_ignored(monkeypatch):
    monkeypatch.setattr(estimator, "mean_effective_size", lambda values: float(values.size))
    check_calibrated(0.0)
    caught(correlation=0.8)


def test_a_constant_left_out():
    caught(correlation=0.0, joint=lambda x: log_joint(x) + 0.5 * np.log(2 * np.pi))


def test_a_jacobian_left_out():
    """The density of exp(x) instead of that of x."""
    caught(correlation=0.0, joint=lambda x: log_joint(x) - x[..., 0])


def test_the_ratio_of_the_numbers_of_draws_left_out(monkeypatch):
    solve = estimator._solve
    monkeypatch.setattr(estimator, "_solve", lambda a, b, log_ratio: solve(a, b, 0.0))
    caught(correlation=0.0)


# --- constants of a latent Gaussian model: found by quadrature --------------------------------------------------------


def no_jacobian(self, u):
    values = self.constrain(u)
    return sum(prior.log_prob(values[name]).sum() for name, prior in self.priors.items())


class NoConstantOfConstraints(Reference):
    """Without log |C C'| / 2, which does not change the posterior."""

    def __init__(self, assembly, *rest):
        super().__init__(assembly, *rest)
        self._log_normaliser += assembly.log_constraints


def no_constant_of_gaussians(pointwise):
    return lambda self, f, xp, special: pointwise(self, f, xp, special) + 0.5 * np.log(2 * np.pi)


CONSTANTS = {
    "Jacobian": lambda: (Parameters, "_log_density", no_jacobian),
    "constraint": lambda: (posterior_module, "Reference", NoConstantOfConstraints),
    "walk": lambda: (ScaledTerm, "constant", lambda self, structure: 0.0),
    "likelihood": lambda: (Gaussian, "_pointwise", no_constant_of_gaussians(Gaussian._pointwise)),
}


@pytest.mark.long
@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_of_a_model_left_out(name, monkeypatch):
    monkeypatch.setattr(*CONSTANTS[name]())
    model, exact = walk_with_known_noise()
    found = model.fit(draws=300, chains=2, seed=SEED + 8, progress=False).log_evidence(1000)
    with pytest.raises(AssertionError, match="log Z is wrong"):
        check(found, exact)

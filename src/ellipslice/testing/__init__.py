"""Property tests of priors, likelihoods, moves and terms, which you can also run on your own classes.

>>> import numpy as np
>>> import ellipslice as es
>>> es.testing.check_prior(es.Dense(np.eye(3)))
>>> es.testing.check_move(es.moves.EllipticalSlice(bracket_width=1.0))

Each check returns None if all properties hold. Otherwise it raises an `AssertionError` that names the property.
Statistical tests have a significance level of 1e-6, so a failure is almost certainly not due to chance.

- `prior`: property tests of a prior
- `capabilities`: property tests of the optional capabilities of a prior
- `likelihood`: property tests of a likelihood
- `move`: property tests of a move
- `search`: exact property tests of a slice search
- `reversible`: a test of reversibility in exact arithmetic
- `stationary`: a posterior with known distribution, which an update must leave invariant
- `gradients`: property tests of moves that need gradients
- `term`: property tests of a term of a latent Gaussian model
- `assertions`: assertions of the property tests
"""

from ellipslice.testing.likelihood import check_likelihood
from ellipslice.testing.move import check_move
from ellipslice.testing.prior import check_prior
from ellipslice.testing.reversible import check_reversible
from ellipslice.testing.term import check_term

__all__ = ["check_likelihood", "check_move", "check_prior", "check_reversible", "check_term"]

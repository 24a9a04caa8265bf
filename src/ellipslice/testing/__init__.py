"""The proof kit: laws that priors, likelihoods and moves must keep, for your own classes too.

>>> import numpy as np
>>> import ellipslice as es
>>> es.testing.check_prior(es.Dense(np.eye(3)))
>>> es.testing.check_move(es.moves.EllipticalSlice(bracket_width=1.0))

Each check returns nothing when all is well, and raises an `AssertionError` that names the broken law. Statistical laws
are tested at a level of one in a million, so a failure is not bad luck.

- `prior`: property tests of a prior
- `capabilities`: property tests of its optional capabilities
- `likelihood`: property tests of a likelihood
- `move`: property tests of a move
- `search`: exact property tests of a search
- `reversible`: the proof of reversibility, in exact arithmetic
- `stationary`: a known posterior that an update must keep
- `gradients`: property tests of moves that need gradients
- `assertions`: how a violation is raised
"""

from ellipslice.testing.likelihood import check_likelihood
from ellipslice.testing.move import check_move
from ellipslice.testing.prior import check_prior
from ellipslice.testing.reversible import check_reversible

__all__ = ["check_likelihood", "check_move", "check_prior", "check_reversible"]

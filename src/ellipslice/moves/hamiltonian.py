"""Hamiltonian Monte Carlo and NUTS, by BlackJAX, on the whitened latent vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.checks import as_numbers, whole_number
from ellipslice.moves.base import Info, Move, State, Target
from ellipslice.moves.metropolis import as_step_size
from ellipslice.noise import NoiseSpec, UpdateNoise
from ellipslice.priors import Prior
from ellipslice.pytree import pytree, set_fields, static


@dataclass(frozen=True, init=False, repr=False)
class Hamiltonian(Move):
    """Hamiltonian Monte Carlo on z, where f = unwhiten(z) and z is standard normal under the prior.

    With informative data it can mix far better than moves without gradients. The log-likelihood must be written with
    `jax.numpy`. "Very effective, but requires tuning" (Section 3 of the paper): `ellipslice.tune_hamiltonian` finds the
    settings. The move requires BlackJAX (`pip install 'ellipslice[blackjax]'`), the compiled engine, and a prior with
    `whiten` that can be compiled.

    Parameters
    ----------
    step_size : float
        Step size of the leapfrog integrator, in units of z. Positive.
    leapfrog_steps : int, optional
        Number of leapfrog steps in each trajectory. At least 1. Default: chosen by NUTS in each update. A fixed number
        mixes slowly if trajectories are about half a period of the posterior: step_size * leapfrog_steps near pi, if
        `inverse_mass_diagonal` is right.
    inverse_mass_diagonal : sequence of float, optional
        Inverse of the diagonal of the mass matrix: about the posterior variance of each element of z. Shape
        (noise_size,) of the prior, positive. Default: ones, the variances under the prior.

    Raises
    ------
    ImportError
        If BlackJAX is not installed.
    TypeError
        If `step_size` is not a number.
    ValueError
        If an argument is out of range.

    Notes
    -----
    The transitions are those of BlackJAX (`blackjax.nuts`, `blackjax.hmc`), with the random key of the update. If
    `noise_size` is greater than the rank of the prior, the components of z that f does not determine are redrawn in
    each update.

    Each leapfrog step costs one evaluation of the log-likelihood and its gradient. `evaluations` is the number of
    leapfrog steps plus two, for both ends. `angle` is the length of the trajectory in units of time, and 0 if the state
    stayed. `nan_evaluations` counts only a NaN at the end of a trajectory.

    Examples
    --------
    >>> import jax.numpy as jnp, numpy as np
    >>> import ellipslice as es
    >>> move = es.moves.Hamiltonian(0.5)
    >>> move
    Hamiltonian(step_size=0.5)
    >>> tree = es.sample(lambda f: -8 * jnp.sum((f - 1) ** 2), es.Diagonal(np.ones(3)), move=move, draws=100, seed=1)
    """

    stored_as = "Hamiltonian"

    step_size: float
    leapfrog_steps: int | None
    inverse_mass_diagonal: tuple[float, ...] | None

    gradients = True

    def __init__(
        self,
        step_size: float,
        leapfrog_steps: int | None = None,
        *,
        inverse_mass_diagonal: Sequence[float] | None = None,
    ):
        if leapfrog_steps is not None:
            leapfrog_steps = whole_number(
                "leapfrog_steps", leapfrog_steps, 1, "a whole number, at least 1, or None for NUTS"
            )
        _import_blackjax()
        object.__setattr__(self, "step_size", as_step_size(step_size, most=np.inf))
        object.__setattr__(self, "leapfrog_steps", leapfrog_steps)
        diagonal = None if inverse_mass_diagonal is None else _as_diagonal(inverse_mass_diagonal)
        object.__setattr__(self, "inverse_mass_diagonal", diagonal)

    def __repr__(self) -> str:
        steps = "" if self.leapfrog_steps is None else f", leapfrog_steps={self.leapfrog_steps}"
        variances = "" if self.inverse_mass_diagonal is None else f", {len(self.inverse_mass_diagonal)} inverse masses"
        return f"Hamiltonian(step_size={self.step_size:g}{steps}{variances})"

    def prepare(self, prior: Prior) -> WhitenedPrior:
        """Return the prior in whitened form. Raise TypeError if `whiten` and `unwhiten` cannot be compiled."""
        try:
            if jax.tree_util.all_leaves([prior]):
                raise prior._missing_capability("whiten")
            jax.eval_shape(lambda prior, z: prior.whiten(prior.unwhiten(z)), prior, np.zeros(prior.noise_size))
        except TypeError as error:
            raise TypeError(f"Hamiltonian needs a map from the prior to standard normals and back. {error}") from None
        if self.inverse_mass_diagonal is not None and len(self.inverse_mass_diagonal) != prior.noise_size:
            raise ValueError(
                f"inverse_mass_diagonal has {len(self.inverse_mass_diagonal)} values, but a draw of {prior!r} is made "
                f"from {prior.noise_size} standard normals. Expected one value for each."
            )
        return WhitenedPrior(prior)

    def noise_spec(self, prior: Prior, prepared: Any) -> NoiseSpec:
        return NoiseSpec(lambda rng, updates: None, numbers=prior.size)  # BlackJAX uses only the key of the update

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Make one trajectory."""
        if isinstance(state.f, np.ndarray):
            raise TypeError(
                "Hamiltonian needs gradients, which the host engine does not have. Write the log-likelihood with "
                "jax.numpy so that it can be compiled, or use EllipticalSlice."
            )
        white: WhitenedPrior = target.prepared
        key, beyond = jax.random.split(jax.random.wrap_key_data(noise.uniforms[0].key, impl="threefry2x32"))
        z = white.whiten(state.f, beyond)
        new_z, taken = self.trajectory(key, z, white.prior, target)
        stayed = (new_z == z).all()
        new = target.at(jnp.where(stayed, state.f, white.prior.unwhiten(new_z)))
        usable = new.log_likelihood > -jnp.inf
        moved = usable & ~stayed
        nans = jnp.isnan(new.log_likelihood).astype(jnp.int32)
        info = Info(taken.astype(jnp.int32) + 2, nans, False, jnp.where(moved, self.step_size * taken, 0.0))
        return State(*(jnp.where(moved, ours, theirs) for ours, theirs in zip(new, state, strict=True))), info

    def trajectory(self, key: Any, z: Any, prior: Prior, target: Target) -> tuple[Any, Any]:
        """Return the z at the end of a transition of BlackJAX, and the number of leapfrog steps."""
        hmc, nuts = _import_blackjax()

        def log_density(z: Any) -> Any:
            return target.log_likelihood(prior.unwhiten(z)) - 0.5 * jnp.sum(z * z)

        start = hmc.init(z, log_density)
        variances = (
            jnp.ones_like(z) if self.inverse_mass_diagonal is None else jnp.asarray(self.inverse_mass_diagonal, z.dtype)
        )
        if self.leapfrog_steps is None:
            end, info = nuts.build_kernel()(key, start, log_density, self.step_size, variances)
        else:
            end, info = hmc.build_kernel()(key, start, log_density, self.step_size, variances, self.leapfrog_steps)
        return end.position, jnp.asarray(info.num_integration_steps)


@pytree
class WhitenedPrior:
    """A prior and its map between f and standard normals z."""

    prior: Prior
    redundant: bool = static()
    """True if f does not determine z, because the prior has more standard normals than its rank."""

    def __init__(self, prior: Prior):
        set_fields(self, prior=prior, redundant=prior.noise_size > prior.rank)

    def whiten(self, f: Any, key: Any) -> Any:
        """Draw z given f. If the prior is not redundant, f determines z."""
        z = self.prior.whiten(f)
        if not self.redundant:
            return z
        other = jax.random.normal(key, z.shape, z.dtype)
        return z + other - self.prior.whiten(self.prior.unwhiten(other))


def _as_diagonal(variances: Any) -> tuple[float, ...]:
    """Return `inverse_mass_diagonal` as a tuple of floats. Raise ValueError if it is not a list of positive numbers."""
    values = as_numbers(variances, "inverse_mass_diagonal")
    if values.ndim != 1 or not (values > 0).all():
        raise ValueError(f"inverse_mass_diagonal must be a list of positive numbers, but it is {variances!r}.")
    return tuple(values.tolist())


def _import_blackjax() -> tuple[Any, Any]:
    """Return the modules `hmc` and `nuts` of BlackJAX. Raise ImportError if it is not installed."""
    try:
        from blackjax.mcmc import hmc, nuts
    except ImportError as error:
        raise ImportError(
            f"Hamiltonian requires BlackJAX, but it could not be imported ({error}). Install it "
            "with: pip install 'ellipslice[blackjax]'."
        ) from None
    return hmc, nuts

"""Elliptical slice sampling as a PyMC step method, for variables with a (multivariate) normal prior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ellipslice.checks import whole_number
from ellipslice.interop.pymc_prior import PRIORS, Gaussian, why_not
from ellipslice.interop.shared import consecutive_blocks, require
from ellipslice.moves import EllipticalSlice as _Move
from ellipslice.moves import Info, State
from ellipslice.moves.search import search

require("pymc")

import pymc as pm  # noqa: E402
from pymc.pytensorf import compile as compile_function  # noqa: E402
from pymc.pytensorf import join_nonshared_inputs, make_shared_replacements  # noqa: E402
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState  # noqa: E402
from pymc.util import get_random_generator  # noqa: E402
from pytensor.compile.sharedvalue import SharedVariable  # noqa: E402
from pytensor.graph.replace import clone_replace  # noqa: E402
from pytensor.graph.traversal import ancestors, toposort  # noqa: E402
from pytensor.tensor.basic import zeros  # noqa: E402

__all__ = ["EllipticalSlice"]

_MOVE = _Move()

WHITE = ("_rotated_", "_hsgp_coeffs", "_hsgp_coeffs_")
"""How the normal variable behind a whitened process is called: its name and one of these."""


class EllipticalSlice(BlockedStep):
    """Elliptical slice sampling of variables with a normal prior; a step method for `pm.sample(step=[...])`.

    Use it for latent functions and weights with Gaussian priors: `pm.gp.Latent`, whitened or not, and any `pm.Normal`,
    `pm.MvNormal` or `pm.MatrixNormal` whose data are not much stronger than its prior. It needs no gradients and no
    tuning. The prior is found in the model, and the likelihood is all else that depends on the variables, so the prior
    cannot count twice. Means and covariances that depend on other variables follow them. PyMC gives the rest of the
    model to NUTS.

    Parameters
    ----------
    vars : list of variables, optional
        Of the model, updated together, on one ellipse; if the prior of one depends on another, in turn. What
        `pm.gp.Latent(...).prior` returned stands for the variable behind it. All free variables with a normal prior,
        unless given.
    updates_per_draw : int
        How many are made for each draw. They are cheap beside a step of NUTS, so where NUTS has the rest of the model
        some more cost little.
    model : pm.Model, optional
        The one whose context this is, unless given.
    rng : numpy.random.Generator or int, optional
        PyMC sets it, from `random_seed`.
    initial_point : dict, optional
        Whose shapes the variables have; the model's own, unless given.
    compile_kwargs : dict, optional
        For PyTensor, such as {"mode": "JAX"}.
    blocked : bool
        False makes a step method of each variable.

    Notes
    -----
    What does not depend on the variables is computed once at each update, not at each evaluation, and not again until
    something it depends on has changed. So with known parameters a covariance is factorised once; it may be singular.

    Statistics in the trace: `evaluations` (proposals tried), `total_log_likelihood`, `angle`, `nan_evaluations` (a
    point with NaN is never accepted) and `search_failed` (True if the search was given up and nothing moved).

    Examples
    --------
    >>> import pymc as pm
    >>> from ellipslice.interop.pymc import EllipticalSlice
    >>> with pm.Model():
    ...     f = pm.Normal("f", 0, 1)
    ...     y = pm.Normal("y", f, 0.5, observed=1.0)
    ...     trace = pm.sample(step=[EllipticalSlice([f])])  # doctest: +SKIP
    """

    name: ClassVar[str] = "elliptical_slice"
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        "evaluations": (np.int64, []),
        "nan_evaluations": (np.int64, []),
        "search_failed": (np.bool_, []),
        "angle": (np.float64, []),
        "total_log_likelihood": (np.float64, []),
    }
    _state_class = StepMethodState

    def __init__(
        self,
        vars: Sequence[Any] | None = None,  # noqa: A002 (PyMC's name)
        *,
        updates_per_draw: int = 1,
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ):
        model = pm.modelcontext(model)
        variables = _own(model, vars)
        point = model.initial_point() if initial_point is None else initial_point
        self.vars = [model.rvs_to_values[variable] for variable in variables]
        self.rng = get_random_generator(rng)
        self.updates_per_draw = whole_number("updates_per_draw", updates_per_draw, 1, "a whole number, at least 1")
        self.tune = False  # there is nothing to tune
        upstream = {variable.name: {str(a.name) for a in ancestors(variable.owner.inputs)} for variable in variables}
        by_name = {variable.name: variable for variable in variables}
        self._blocks = [
            _Block(model, [by_name[name] for name in names], point, compile_kwargs or {})
            for names in consecutive_blocks(list(by_name), upstream)
        ]
        self._left: tuple[Any, float] = (None, 0.0)  # the point we left, and its value

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        """As many updates of each block as were asked for."""
        info = Info(0, 0, False, 0.0)
        for block in self._blocks * self.updates_per_draw:
            nobody_else = len(self._blocks) == 1 and point is self._left[0]
            point, value, this = block.update(point, self._left[1] if nobody_else else None, self.rng)
            self._left, info = (point, value), info.combine(this)
        stats = {**info._asdict(), "total_log_likelihood": self._left[1]}
        del stats["more"]  # a search has no statistics of its own
        return point, [stats]

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Never chosen unasked."""
        return Competence.INCOMPATIBLE


class _Block:
    """Variables whose priors do not depend on each other: one ellipse."""

    def __init__(self, model: pm.Model, variables: list[Any], point: dict[str, np.ndarray], compile_kwargs: dict):
        values = [model.rvs_to_values[variable] for variable in variables]
        self._names = [value.name for value in values]
        self._shapes = [np.shape(point[name]) for name in self._names]
        self._priors = [PRIORS[type(variable.owner.op).__name__] for variable in variables]
        shared: dict[Any, Any] = make_shared_replacements(point, values, model)
        self._others = {value.name: ours for value, ours in shared.items()}

        parameters = [_parameters(variable) for variable in variables]
        self._counts = [len(part) for part in parameters]
        flat_parameters = model.replace_rvs_by_values([each for part in parameters for each in part])
        log_likelihood = _all_but_the_prior(model, variables)
        (log_likelihood, *flat_parameters), flat = join_nonshared_inputs(
            point, [log_likelihood, *flat_parameters], values, shared
        )
        fixed = _fixed(log_likelihood, flat)
        stand_ins = [each.type() for each in fixed]
        (log_likelihood,) = clone_replace([log_likelihood], dict(zip(fixed, stand_ins, strict=True)))
        given = [*flat_parameters, *fixed]
        self._given = compile_function([], given, **compile_kwargs)
        self._log_likelihood = compile_function(
            [flat, *stand_ins], log_likelihood, on_unused_input="ignore", **compile_kwargs
        )
        self._dtype = flat.type.dtype
        self._depends_on = [a for a in ancestors(given) if isinstance(a, SharedVariable)]
        self._seen: list[Any] = []

    def update(
        self, point: dict[str, np.ndarray], value: float | None, rng: np.random.Generator
    ) -> tuple[dict[str, np.ndarray], float, Info]:
        """The point after one update, the log-likelihood there, and what happened."""
        self._look(point)
        here = np.concatenate([np.ravel(point[name]) for name in self._names])
        nu = np.concatenate([np.ravel(prior.draw(rng)) for prior in self._gaussians])

        def log_likelihood(f: np.ndarray) -> float:
            return float(self._log_likelihood((f + self._mean).astype(self._dtype), *self._fixed))

        f = here - self._mean
        state = State(f, log_likelihood(f) if value is None else value)
        state, info = search(_MOVE, nu, rng.standard_exponential(), lambda _: rng.random(), state, log_likelihood)
        return (point if info.search_failed else self._moved(point, state.f + self._mean)), state.log_likelihood, info

    def _moved(self, point: dict[str, np.ndarray], flat: np.ndarray) -> dict[str, np.ndarray]:
        point, start = dict(point), 0
        for name, shape in zip(self._names, self._shapes, strict=True):
            stop = start + int(np.prod(shape))
            point[name] = flat[start:stop].reshape(shape).astype(np.asarray(point[name]).dtype)
            start = stop
        return point

    def _look(self, point: dict[str, np.ndarray]) -> None:
        """Priors, and what else does not depend on our variables, unless nothing they depend on has changed."""
        for name, ours in self._others.items():
            if not np.array_equal(ours.get_value(borrow=True), point[name]):
                ours.set_value(np.array(point[name]))
        seen = [each.get_value(borrow=True) for each in self._depends_on]
        if self._seen and all(a is b for a, b in zip(seen, self._seen[0], strict=True)):
            return
        given = [np.array(each) for each in self._given()]
        self._gaussians: list[Gaussian] = []
        for make, shape, count in zip(self._priors, self._shapes, self._counts, strict=True):
            self._gaussians.append(make(shape, *given[:count]))
            given = given[count:]
        self._mean = np.concatenate([np.ravel(gaussian.mean) for gaussian in self._gaussians])
        self._fixed = given
        self._seen = [seen]

    def __getstate__(self) -> dict[str, Any]:
        """What is cached holds functions that cannot be sent to another process, and is made again there."""
        return {name: part for name, part in self.__dict__.items() if name != "_gaussians"} | {"_seen": []}


def _own(model: pm.Model, given: Any) -> list[Any]:
    """The free variables to update, in the model's order; refused unless they have a normal prior."""
    reasons = {variable: why_not(model, variable) for variable in model.free_RVs}
    if given is None:
        given = [variable for variable, reason in reasons.items() if reason is None]
        if not given:
            raise ValueError("the model has no free variable with a normal prior, so there is nothing to update.")
    own = set()
    for variable in given if isinstance(given, list | tuple) else [given]:
        own.add(_behind(model, variable, reasons))
    return [variable for variable in model.free_RVs if variable in own]


def _behind(model: pm.Model, variable: Any, reasons: dict[Any, str | None]) -> Any:
    """A variable of the model, by itself, by name or by its value, or what a Gaussian process has made of it."""
    variable = model.named_vars.get(variable, variable) if isinstance(variable, str) else variable
    variable = model.values_to_rvs.get(variable, variable)
    name = str(variable)
    if variable in model.deterministics:
        above = set(ancestors([variable]))
        behind = [
            each
            for each, why in reasons.items()
            if why is None and each in above and each.name in [f"{name}{end}" for end in WHITE]
        ]
        if len(behind) == 1:
            variable, name = behind[0], behind[0].name
    if variable not in reasons:
        gaussian = ", ".join(each.name for each, reason in reasons.items() if reason is None) or "none"
        raise ValueError(f"{name} is no free variable of the model. Those with a normal prior: {gaussian}.")
    if reasons[variable] is not None:
        raise ValueError(
            f"EllipticalSlice needs variables with a normal prior (Normal, MvNormal, MatrixNormal), but {name} has "
            f"none: {reasons[variable]}. Leave it to NUTS."
        )
    return variable


def _parameters(variable: Any) -> list[Any]:
    return list(variable.owner.op.dist_params(variable.owner))


def _all_but_the_prior(model: pm.Model, variables: list[Any]) -> Any:
    """The log-density of everything that depends on the variables, except themselves."""
    terms = [
        term
        for term in (*model.basic_RVs, *model.potentials)
        if term not in variables and any(variable in ancestors([term]) for variable in variables)
    ]
    return model.logp(vars=terms) if terms else zeros(())


def _fixed(output: Any, flat: Any) -> list[Any]:
    """The variables of a graph at which what depends on `flat` meets what depends on other variables alone."""
    moving, found = {flat}, {}
    for node in toposort([output]):
        if moving.isdisjoint(node.inputs):
            continue
        moving.update(node.outputs)
        for each in node.inputs:
            if each not in moving and each.owner is not None and _depends_on_shared(each):
                found[each] = None
    return list(found)


def _depends_on_shared(variable: Any) -> bool:
    return any(isinstance(each, SharedVariable) for each in ancestors([variable]))

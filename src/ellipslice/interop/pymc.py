"""Elliptical slice sampling as a PyMC step method, for variables with a normal prior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ellipslice.checks import whole_number
from ellipslice.interop.pymc_prior import PRIORS, Gaussian, reason_against
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

WHITENED_SUFFIXES = ("_rotated_", "_hsgp_coeffs", "_hsgp_coeffs_")
"""PyMC's name of the standard normals of a whitened process is the name of the process with one of these suffixes."""


class EllipticalSlice(BlockedStep):
    """PyMC step method for variables with normal priors, by elliptical slice sampling: `pm.sample(step=[...])`.

    It suits latent functions and coefficients with Gaussian priors: `pm.gp.Latent`, whitened or not, and `pm.Normal`,
    `pm.MvNormal` and `pm.MatrixNormal`. It needs no gradients and no tuning. It mixes slowly if the data are much more
    informative than the prior.

    The prior is taken from the model. The likelihood is everything else that depends on the variables, so the prior
    cannot count twice. Means and covariances may depend on other variables. PyMC uses NUTS for the rest of the model.

    Parameters
    ----------
    vars : list of variables, optional
        Variables to update, also by name. Default: all free variables with a normal prior. The result of
        `pm.gp.Latent(...).prior` stands for its standard normals. Variables are updated jointly, on one ellipse, or in
        turn if the prior of one depends on another.
    updates_per_draw : int
        Number of updates for each draw. Default: 1. An update is cheap compared with one of NUTS, so in a model with
        NUTS more updates cost little.
    model : pm.Model, optional
        Default: the model of the current context.
    rng : numpy.random.Generator or int, optional
        Random numbers. `pm.sample` sets it from `random_seed`.
    initial_point : dict, optional
        Point that determines the shapes of the variables. Default: the initial point of the model.
    compile_kwargs : dict, optional
        Options for PyTensor, such as {"mode": "JAX"}. Default: none.
    blocked : bool
        Whether one step method updates all variables. Default: True. False makes a step method for each variable.

    Raises
    ------
    ValueError
        If a variable is not a free variable of the model with a normal prior.

    Notes
    -----
    Parts of the model that do not depend on the variables are computed at most once per update, and only after
    something that they depend on has changed. A covariance with known hyperparameters is therefore factorised once. It
    may be singular.

    Statistics in the trace: `evaluations` (number of proposals tried), `nan_evaluations` (those with NaN, which are
    never accepted), `search_failed` (True if the search ended without an accepted proposal), `angle` (radians) and
    `total_log_likelihood`.

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
        variables = _variables_to_update(model, vars)
        point = model.initial_point() if initial_point is None else initial_point
        self.vars = [model.rvs_to_values[variable] for variable in variables]
        self.rng = get_random_generator(rng)
        self.updates_per_draw = whole_number("updates_per_draw", updates_per_draw, 1, "a whole number, at least 1")
        self.tune = False  # PyMC reads it; elliptical slice sampling has nothing to tune
        upstream = {variable.name: {str(a.name) for a in ancestors(variable.owner.inputs)} for variable in variables}
        by_name = {variable.name: variable for variable in variables}
        self._blocks = [
            _Block(model, [by_name[name] for name in names], point, compile_kwargs or {})
            for names in consecutive_blocks(list(by_name), upstream)
        ]
        self._last: tuple[Any, float] = (None, 0.0)  # the point that `step` returned, and its log-likelihood

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        """Return the point after `updates_per_draw` updates of each block, and the statistics. PyMC calls it."""
        info = Info(0, 0, False, 0.0)
        for block in self._blocks * self.updates_per_draw:
            unchanged = len(self._blocks) == 1 and point is self._last[0]  # no other step method has changed the point
            point, value, this = block.update(point, self._last[1] if unchanged else None, self.rng)
            self._last, info = (point, value), info.combine(this)
        stats = {**info._asdict(), "total_log_likelihood": self._last[1]}
        del stats["more"]  # elliptical slice sampling has no further statistics
        return point, [stats]

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Return that PyMC must not assign this step method by itself; users name it in `step`."""
        return Competence.INCOMPATIBLE


class _Block:
    """Variables whose priors do not depend on each other. They are updated on one ellipse."""

    def __init__(self, model: pm.Model, variables: list[Any], point: dict[str, np.ndarray], compile_kwargs: dict):
        values = [model.rvs_to_values[variable] for variable in variables]
        self._names = [value.name for value in values]
        self._shapes = [np.shape(point[name]) for name in self._names]
        self._priors = [PRIORS[type(variable.owner.op).__name__] for variable in variables]
        shared: dict[Any, Any] = make_shared_replacements(point, values, model)
        self._others = {value.name: own for value, own in shared.items()}

        parameters = [_parameters(variable) for variable in variables]
        self._counts = [len(part) for part in parameters]
        flat_parameters = model.replace_rvs_by_values([each for part in parameters for each in part])
        log_likelihood = _all_but_the_prior(model, variables)
        (log_likelihood, *flat_parameters), flat = join_nonshared_inputs(
            point, [log_likelihood, *flat_parameters], values, shared
        )
        fixed = _independent_parts(log_likelihood, flat)
        placeholders = [each.type() for each in fixed]
        (log_likelihood,) = clone_replace([log_likelihood], dict(zip(fixed, placeholders, strict=True)))
        computed_once = [*flat_parameters, *fixed]
        self._compute_once = compile_function([], computed_once, **compile_kwargs)
        self._log_likelihood = compile_function(
            [flat, *placeholders], log_likelihood, on_unused_input="ignore", **compile_kwargs
        )
        self._dtype = flat.type.dtype
        self._depends_on = [a for a in ancestors(computed_once) if isinstance(a, SharedVariable)]
        self._used_values: list[Any] = []  # empty, or the list of values of `_depends_on` at the last computation

    def update(
        self, point: dict[str, np.ndarray], value: float | None, rng: np.random.Generator
    ) -> tuple[dict[str, np.ndarray], float, Info]:
        """Return the point after one update, its log-likelihood, and the statistics.

        `value` is the log-likelihood at `point`; None if it is not known.
        """
        self._refresh(point)
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

    def _refresh(self, point: dict[str, np.ndarray]) -> None:
        """Recompute the priors, and all else that does not depend on our variables, if its inputs have changed."""
        for name, own in self._others.items():
            if not np.array_equal(own.get_value(borrow=True), point[name]):
                own.set_value(np.array(point[name]))
        values = [each.get_value(borrow=True) for each in self._depends_on]
        if self._used_values and all(a is b for a, b in zip(values, self._used_values[0], strict=True)):
            return
        computed = [np.array(each) for each in self._compute_once()]
        self._gaussians: list[Gaussian] = []
        for make, shape, count in zip(self._priors, self._shapes, self._counts, strict=True):
            self._gaussians.append(make(shape, *computed[:count]))
            computed = computed[count:]
        self._mean = np.concatenate([np.ravel(gaussian.mean) for gaussian in self._gaussians])
        self._fixed = computed
        self._used_values = [values]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the priors, whose functions cannot be pickled. They are computed again elsewhere."""
        return {name: part for name, part in self.__dict__.items() if name != "_gaussians"} | {"_used_values": []}


def _variables_to_update(model: pm.Model, given: Any) -> list[Any]:
    """Return the free variables to update, in the order of the model. Raise unless they have a normal prior."""
    reasons = {variable: reason_against(model, variable) for variable in model.free_RVs}
    if given is None:
        given = [variable for variable, reason in reasons.items() if reason is None]
        if not given:
            raise ValueError(
                "the model has no free variable with a normal prior, so there is nothing to update. Use another step "
                "method, such as pm.NUTS."
            )
    own = set()
    for variable in given if isinstance(given, list | tuple) else [given]:
        own.add(_free_variable(model, variable, reasons))
    return [variable for variable in model.free_RVs if variable in own]


def _free_variable(model: pm.Model, variable: Any, reasons: dict[Any, str | None]) -> Any:
    """Return the free variable that the user means. Raise if there is none, or it has no normal prior.

    The user may give the variable, its name, its value variable, or the Gaussian process that PyMC has made of it.
    """
    variable = model.named_vars.get(variable, variable) if isinstance(variable, str) else variable
    variable = model.values_to_rvs.get(variable, variable)
    name = str(variable)
    if variable in model.deterministics:
        inputs = set(ancestors([variable]))
        normals = [
            each
            for each, reason in reasons.items()
            if reason is None and each in inputs and each.name in [f"{name}{suffix}" for suffix in WHITENED_SUFFIXES]
        ]
        if len(normals) == 1:
            variable, name = normals[0], normals[0].name
    if variable not in reasons:
        gaussian = ", ".join(each.name for each, reason in reasons.items() if reason is None) or "none"
        raise ValueError(f"{name} is not a free variable of the model. Those with a normal prior: {gaussian}.")
    if reasons[variable] is not None:
        raise ValueError(
            f"EllipticalSlice needs variables with a normal prior (Normal, MvNormal, MatrixNormal), but {name} has "
            f"none: {reasons[variable]}. Leave it to NUTS."
        )
    return variable


def _parameters(variable: Any) -> list[Any]:
    return list(variable.owner.op.dist_params(variable.owner))


def _all_but_the_prior(model: pm.Model, variables: list[Any]) -> Any:
    """Return the log density of everything that depends on the variables, except their own priors."""
    terms = [
        term
        for term in (*model.basic_RVs, *model.potentials)
        if term not in variables and any(variable in ancestors([term]) for variable in variables)
    ]
    return model.logp(vars=terms) if terms else zeros(())


def _independent_parts(output: Any, flat: Any) -> list[Any]:
    """Return the largest parts of a graph that depend on shared variables, but not on `flat`."""
    dependent, found = {flat}, {}
    for node in toposort([output]):
        if dependent.isdisjoint(node.inputs):
            continue
        dependent.update(node.outputs)
        for each in node.inputs:
            if each not in dependent and each.owner is not None and _depends_on_shared(each):
                found[each] = None
    return list(found)


def _depends_on_shared(variable: Any) -> bool:
    return any(isinstance(each, SharedVariable) for each in ancestors([variable]))

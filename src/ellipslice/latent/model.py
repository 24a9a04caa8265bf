"""`LatentGaussianModel`: responses with a linear predictor of Gaussian terms, from a data frame to draws."""

from __future__ import annotations

import copy
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from ellipslice.checks import as_path, whole_number
from ellipslice.engines.threads import limit_blas_threads
from ellipslice.latent.definition import Arguments, Definition, caller_variables
from ellipslice.latent.describe import describe
from ellipslice.latent.fit import LatentFit
from ellipslice.latent.joint import KeepPoint, LatentPrior, PointLikelihood
from ellipslice.latent.pilot import run_pilot
from ellipslice.latent.prior_predictive import prior_predictive
from ellipslice.latent.stored_model import StoredModel
from ellipslice.machine import available_cores
from ellipslice.sampling import Until, sample
from ellipslice.sampling.arguments import chain_indices, check_draw_limit, check_timeout
from ellipslice.store.create import check_free


class LatentGaussianModel(StoredModel):
    """Generalised linear mixed model, or another latent Gaussian model, with unknown hyperparameters.

    The response of each row has a linear predictor eta, which is a sum of Gaussian terms: fixed effects, group-level
    effects, random walks, spatial effects. Draws are from the exact posterior. `LatentFit.compare_with_laplace` shows
    how far an INLA-type approximation is from it.

    Parameters
    ----------
    formula : str, or array or column name
        Formula, such as "deaths ~ 1 + x + rw2(age) + bym2(region, graph=W) + (1 | hospital) + offset(log(E))". Or the
        responses, if `terms` is given. NaN is a missing response: a row to predict.
    terms : sequence of terms, optional
        Terms of `es.terms`, if there is no formula: `[Fixed(["1", "x"]), RW2("age")]`.
    data : DataFrame or mapping of str to array, optional
        Columns with one value per row. Required for a formula.
    family : str, class or function
        Distribution of the response: "gaussian", "student_t", "poisson", "negative_binomial", "binomial", "bernoulli",
        "gamma", "beta", "exponential", "weibull", "zero_inflated_poisson", "zero_inflated_negative_binomial",
        "zero_inflated_binomial", "ordinal" or "stochastic_volatility". Default: "gaussian". Or a function
        ``log_density(y, eta, **parameters)`` written with `jax.numpy`, which returns one value per row; or a class that
        derives from `likelihoods.Likelihood`. Their unknown parameters require `priors`.
    link : str, optional
        Link function of "bernoulli" and "binomial": "logit", "probit" or "cloglog". Default: "logit".
    exposure : str or array, optional
        Exposure of counts: the mean is exposure * exp(eta). A column name or one value per row. Default: 1.
    trials : str or array, optional
        Number of trials of each row of "binomial" and "zero_inflated_binomial".
    known : mapping of str to str, float or array, optional
        Other known values of the family by name: a column name, one number or one value per row. Columns are
        {"event": "died"} for survival times, 1 if the event was observed and 0 if the time is censored. A parameter of
        the family is not estimated if it is here: {"degrees_of_freedom": 4}. {"categories": 5} is the number of
        categories of "ordinal".
    offset : str or array, optional
        Known part of the linear predictor, for a list of terms. In a formula write offset(...). Default: 0.
    fixed_sd : float, "flat", or mapping of str to float; optional
        Prior standard deviation of fixed effects in a formula, by name of the coefficient. Default: see `terms.Fixed`.
    priors : mapping of str to distribution of NumPyro, optional
        Priors of parameters of the family by name, such as `{"noise_scale": dist.HalfNormal(1)}`. Default: those that
        `describe` prints.
    variables : mapping of str to object, optional
        Variables that a formula may name, such as a graph. Default: those of the function that makes the model.
    solver : {"numba", "cholmod"}
        Sparse Cholesky factorisation. "cholmod" requires cvxopt, whose licence is the GPL. Default: "numba". The solver
        is recorded in the result, because draws of a seed depend on it up to rounding error.

    Raises
    ------
    ValueError, TypeError
        If formula, data, priors or family are invalid, or a flat prior makes the posterior improper.
    ImportError
        If numba or NumPyro is not installed.

    Notes
    -----
    `gp.LatentGP` is for one or a few Gaussian processes with dense kernels and any likelihood. This class is for sums
    of many sparse terms with a family of responses. Names of a formula that are not columns, such as a graph, are
    looked up in `variables`.

    Examples
    --------
    >>> import numpy as np
    >>> import ellipslice as es
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b", "c", "d", "e"], 8)
    >>> data = {"y": rng.poisson(3, 40), "x": rng.standard_normal(40), "g": group}
    >>> model = es.LatentGaussianModel("y ~ x + (1 | g)", data=data, family="poisson")
    >>> model
    LatentGaussianModel(y: poisson, 40 rows; terms: fixed, g; hyperparameters: g_sd)
    >>> fit = model.fit(draws=100, seed=1)
    >>> fit.tree.posterior["g"].shape
    (4, 100, 5)
    """

    def __init__(
        self,
        formula: Any,
        terms: Sequence[Any] | None = None,
        *,
        data: Any = None,
        family: Any = "gaussian",
        link: str | None = None,
        exposure: Any = None,
        trials: Any = None,
        known: Mapping[str, Any] | None = None,
        offset: Any = None,
        fixed_sd: Any = None,
        priors: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        solver: str = "numba",
    ):
        own = {"exposure": exposure, "trials": trials}
        columns = {**(known or {}), **{name: each for name, each in own.items() if each is not None}}
        given = Arguments(formula, terms, data, family, link, columns, offset, fixed_sd, priors, solver)
        self._definition = Definition.make(given, caller_variables(depth=2) if variables is None else variables)

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Priors of all hyperparameters, by name."""
        return dict(self._definition.posterior.hyperparameters.parameters.priors)

    def describe(self) -> str:
        """Return the model as text: response, terms, constraints, and every prior with its default."""
        return describe(self._definition)

    def prior_predictive(self, draws: int = 500, seed: int = 0) -> Any:
        """Draw hyperparameters, terms, linear predictors and responses from the prior.

        Parameters
        ----------
        draws : int
            Number of draws. Default: 500.
        seed : int
            Default: 0.

        Returns
        -------
        xarray.Dataset
            Hyperparameters, effects by name, `linear_predictor`, `expected` and the response, with dimensions (draw,
            ...).

        Raises
        ------
        ValueError
            If the prior of a term is improper. The message names it.
        """
        return prior_predictive(self._definition, whole_number("draws", draws, 1), whole_number("seed", seed, 0))

    def fit(
        self,
        *,
        draws: int | None = None,
        warmup: int = 50,
        chains: int = 4,
        seed: int | None = None,
        thin: int = 1,
        until: Until | None = None,
        store: str | os.PathLike[str] | None = None,
        executor: Executor | Callable[[], Executor] | None = None,
        timeout: float | None = None,
        progress: bool = True,
    ) -> LatentFit:
        """Draw from the posterior of hyperparameters and terms.

        A pilot run finds a Gaussian reference and the settings of the move, which then stay constant.

        Parameters
        ----------
        draws : int, optional
            Number of draws per chain. Default: as in `sample`, until the run has converged. It cannot be combined with
            `until`.
        warmup : int
            Number of updates that are discarded at the start of each chain. Default: 50. Chains start near the
            posterior.
        chains : int
            Number of chains. Default: 4.
        seed : int, optional
            The same seed gives bit-identical draws on the same machine. Default: random, recorded in the result.
        thin : int
            Keep every thin-th update. Default: 1.
        until : Until, optional
            Stopping rule instead of a number of draws.
        store : path, optional
            New folder to which draws are written, as for `sample`. `resume` continues its run.
        executor, timeout : optional
            Workers, and seconds to wait for an answer, as for `sample`. The pilot run uses none.
        progress : bool
            Show a progress bar in a terminal or notebook. Default: True.

        Returns
        -------
        LatentFit
            The draws, with methods for summaries, predictions and plots.
        """
        if store is not None:
            check_free(as_path(store))
        check_timeout(timeout, executor)
        check_draw_limit(draws, until)
        indices = chain_indices(chains)
        seed = secrets.randbits(32) if seed is None else whole_number("seed", seed, 0)
        own = self._definition
        pilot_seed = int(np.random.SeedSequence(seed).spawn(1)[0].generate_state(1)[0])
        with limit_blas_threads(available_cores()):
            pilot = run_pilot(own.posterior, pilot_seed)
            tree = sample(
                PointLikelihood(own.posterior), LatentPrior(own.posterior, repr(self)), move=pilot.move,
                initial=pilot.starts(pilot_seed, indices), keep=KeepPoint(own.posterior, own.effects), engine="host",
                draws=draws, warmup=warmup, chains=chains, seed=seed, thin=thin, until=until, store=store,
                executor=executor, timeout=timeout, progress=progress, dims=own.dims, coords=own.coords,
            )  # fmt: skip
        return LatentFit(self, tree, pilot.move, None if store is None else as_path(store))

    def without(self, rows: Any) -> LatentGaussianModel:
        """Return the model in which the responses of some rows are missing, with unchanged priors.

        Parameters
        ----------
        rows : array of int
            Numbers of the rows.

        Returns
        -------
        LatentGaussianModel
            `LatentFit.predict` of its fit predicts these rows without their responses.
        """
        model = copy.copy(self)
        model._definition = self._definition.without(np.asarray(rows))
        return model

    def __repr__(self) -> str:
        own = self._definition
        names = ", ".join(own.posterior.hyperparameters.names) or "none"
        terms = ", ".join(term.name for term in own.predictor.terms)
        response = f"{own.response_name}: {own.family.name}, {len(own.y)} rows"
        return f"LatentGaussianModel({response}; terms: {terms}; hyperparameters: {names})"

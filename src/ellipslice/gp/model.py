"""`LatentGP`: a Gaussian-process model with any likelihood, from data to draws."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from ellipslice.checks import as_path, whole_number
from ellipslice.gp.components import described
from ellipslice.gp.definition import ModelDefinition
from ellipslice.gp.fit import Fit
from ellipslice.gp.names import names_of, with_columns
from ellipslice.gp.problem import SampleOptions, check_options, choose_move, describe_result, problem_of
from ellipslice.gp.stored_fit import stored_move, stored_tree
from ellipslice.gp.time_series import time_series
from ellipslice.parameters.parametrisations import check_parametrisations
from ellipslice.priors.parts.features import as_inputs
from ellipslice.sampling import Until, resume
from ellipslice.sampling.arguments import check_timeout
from ellipslice.store.create import check_free
from ellipslice.store.verify import check_draws


class LatentGP(ModelDefinition):
    """Gaussian-process model with any likelihood, and known or unknown hyperparameters.

    Parameters
    ----------
    kernel : tinygp kernel, scikit-learn kernel or function; or a mapping of names to these
        Covariance of the latent function. A function of hyperparameters must return a kernel: `lambda amplitude,
        length_scale: amplitude**2 * tinygp.kernels.Matern52(length_scale)`, or `lambda p: ...` with all of them in a
        mapping. A mapping defines several latent functions, which the likelihood receives by name.
    likelihood : class or function
        Function of y, and of hyperparameters if it names any, that returns the log-likelihood. Examples:
        `es.likelihoods.Poisson`, `lambda y: Poisson(y, offset=1.5)`. The returned function may be any that `sample`
        accepts. It receives the values of the latent functions at the inputs, each of shape (n,).
    mean : float or function; or a mapping of names to these
        Prior mean of the latent function. Default: 0. A function of hyperparameters, and of the inputs if it has an
        argument X, must return a number or an array of shape (n,). With a mapping, latent functions without an entry
        have mean 0.
    parameters : mapping of str to numpyro distribution, optional
        Hyperparameters of kernel, likelihood and mean, with their priors. Default: none. Each is passed to the argument
        of its name in one component of the model: a kernel, a mean or the likelihood. A name that matches in two
        components raises.
    shared : sequence of str, optional
        Names of hyperparameters that may enter several components, such as one length scale for the kernels of two
        latent functions. Default: none.

    Raises
    ------
    TypeError
        If the likelihood or a kernel cannot be called as described, or a prior is not a numpyro distribution.
    ValueError
        If a hyperparameter enters several components and is not in `shared`, or enters none.

    Notes
    -----
    The prior mean is 0 by default, on the scale of the latent function. For counts this is a prior median of 1 for the
    rate. If the counts are larger or smaller, use an unknown intercept as the mean function:
    `mean=lambda intercept: intercept` with `parameters={"intercept": dist.Normal(np.log(np.mean(y)), 1.0)}`, where
    `dist` is `numpyro.distributions`.

    An argument that `functools.partial` sets is known, and no hyperparameter is passed to it. `Fit.hyperparameters`
    records what each hyperparameter enters.

    If all hyperparameters are known, the structure of the prior follows from kernel and inputs: Markov in time for
    kernels of `tinygp.kernels.quasisep`, stationary on a complete regular grid of more than 1,000 inputs, and dense
    otherwise, for at most 5,000 inputs.

    Time series of more than 100 inputs with unknown hyperparameters cost O(n) per update, for any n, if the kernel is
    one of `tinygp.kernels.quasisep`, the likelihood one of `es.likelihoods`, the mean linear in hyperparameters with
    normal priors, and each hyperparameter enters one component. They use the sampler of `LatentGaussianModel`.

    In other models each tried value of the kernel's hyperparameters costs one factorisation: O(n^3), or O(n r^2) if the
    covariance of a smooth kernel has numerical rank r. At most 5,000 inputs are possible. Pilot runs at the start
    choose the parametrisation in which the hyperparameters move (see `Fit.parameter_moves`).

    Examples
    --------
    >>> import numpy as np
    >>> from tinygp import kernels
    >>> import ellipslice as es
    >>> x = np.linspace(0, 10, 50)
    >>> y = np.random.default_rng(0).poisson(np.exp(1 + np.sin(x)))
    >>> model = es.gp.LatentGP(kernels.ExpSquared(scale=1.5), es.likelihoods.Poisson, mean=1.0)
    >>> fit = model.fit(x, y, draws=500, seed=1)
    >>> fit.predict([2.5, 4.0]).latent.mean(("chain", "draw")).values.round(1)
    array([1.8, 0.4])
    """

    @property
    def latents(self) -> list[str]:
        """Names of the latent functions. A single kernel has the name f."""
        return list(self.kernels)

    @np.errstate(under="ignore")  # underflow to 0 is harmless here: tiny covariances and weights
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        draws: int | None = None,
        warmup: int | None = None,
        chains: int = 4,
        seed: int | None = None,
        thin: int = 1,
        until: Until | None = None,
        engine: str | None = None,
        reference: Any = None,
        parameter_moves: tuple[str, ...] | None = None,
        latent_updates: int = 5,
        store: str | os.PathLike[str] | None = None,
        executor: Executor | Callable[[], Executor] | None = None,
        timeout: float | None = None,
        progress: bool = True,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Any] | None = None,
    ) -> Fit:
        """Draw from the posterior of latent functions and hyperparameters.

        Parameters
        ----------
        X : array or data frame, shape (n,) or (n, axes)
            Inputs. The columns of a data frame become coordinates of the points, and its index their labels if it is
            not 0, 1, 2, ...
        y : array
            Data, as the likelihood takes them.
        draws : int, optional
            Number of draws per chain. Default: as in `sample`, until the run has converged. It cannot be combined with
            `until`.
        warmup : int, optional
            Number of updates that are discarded at the start of each chain. Nothing is tuned in them. Default: 50 for
            time series with unknown hyperparameters in linear time, 500 for other models.
        chains : int
            Number of chains. Default: 4.
        seed : int, optional
            The same seed gives bit-identical draws. Default: random, recorded in the attributes of the result.
        thin : int
            Keep every thin-th update. Default: 1.
        until : Until, optional
            Stopping rule instead of a number of draws.
        engine : {"compiled", "host", "batched", "fused"}, optional
            Code that runs the chains, as for `sample`. Default: chosen from model and machine.
        reference : {"auto", "laplace", "ep", "pilot"} or Prior, optional
            Reference Gaussian, as for `sample`, for data much more informative than the prior. Default: none. Only if
            all hyperparameters are known.
        parameter_moves : tuple of str, optional
            Parametrisations in which the kernel's hyperparameters may move: some of "whitened", "sites", "surrogate"
            and "fixed_latent", named by what is fixed meanwhile. Default: those that suit the model. Pilot runs compare
            them. The best one is used in most updates, and the second best in the others.
        latent_updates : int
            Number of updates of the latent functions after each one of the hyperparameters. Default: 5. Ignored if all
            hyperparameters are known, and for time series in linear time.
        store : path, optional
            New folder to which draws are written, as for `sample`. `resume` continues its run, and `open` reads it.
        executor, timeout : optional
            Workers, and seconds to wait for an answer, as for `sample`: for a slow black-box likelihood, or for long
            runs on a cluster. Pilot runs have two chains, so they use at most two workers.
        progress : bool
            Show a progress bar in a terminal or notebook. Default: True.
        dims, coords : mapping, optional
            Names and labels of the dimensions of hyperparameters and latent functions, as for `sample`: `dims={"b":
            ["slope"]}, coords={"slope": ["height", "age"]}`. The dimension of latent functions is point by default.

        Returns
        -------
        Fit
            The draws, with methods for predictions and plots.

        Raises
        ------
        ValueError
            If data and inputs do not match, or there are too many inputs; if options contradict each other or the
            model; or if the kernel has no positive definite covariance at the inputs.
        """
        inputs = as_inputs(X, "X")
        names = names_of(self, X, inputs, dims, coords)
        options = SampleOptions(
            draws=draws, warmup=warmup, chains=chains, seed=secrets.randbits(32) if seed is None else seed, thin=thin,
            until=until, engine=engine, reference=reference, store=store, executor=executor, timeout=timeout,
            progress=progress, dims=names.dims, coords=names.coords,
        )  # fmt: skip
        if store is not None:
            check_free(as_path(store))
        check_timeout(timeout, executor)
        check_options(self, reference, parameter_moves)
        latent_updates = whole_number("latent_updates", latent_updates, 1, "a whole number, at least 1")
        parametrisations, problem = check_parametrisations(parameter_moves), problem_of(self, inputs, y)
        options = options._replace(engine=problem.engine if engine is None else engine)
        chosen, initial = choose_move(problem, options, parametrisations, latent_updates)
        tree = problem.sample(options, chosen, initial)
        return self._fit(
            X, inputs, y, describe_result(tree, problem.structure, problem.entered, chosen and chosen.move)
        )

    @np.errstate(under="ignore")
    def resume(
        self,
        store: str | os.PathLike[str],
        X: Any,
        y: Any,
        *,
        draws: int | None = None,
        until: Until | None = None,
        executor: Executor | Callable[[], Executor] | None = None,
        timeout: float | None = None,
        progress: bool = True,
    ) -> Fit:
        """Continue a run that `fit(..., store=...)` began, or add draws to it.

        Model and data must be those of the store: kernel, means, priors and data are compared with it. The store
        contains the parametrisations that the pilot runs chose, so these are not repeated.

        Parameters
        ----------
        store : path
            Folder that was given to `fit`.
        X, y : array
            The inputs and data that were given to `fit`.
        draws, until : optional
            Number of draws per chain, including those in the store, or stopping rule. Default: that of the store.
        executor, timeout : optional
            Workers, and seconds to wait for an answer, as for `sample`. They do not change the draws.
        progress : bool
            Show a progress bar in a terminal or notebook. Default: True.

        Returns
        -------
        Fit
            All draws of the store.

        Raises
        ------
        ValueError
            If the store was made with another model or other data, or is damaged.

        Examples
        --------
        >>> import tempfile, numpy as np
        >>> from tinygp import kernels
        >>> import ellipslice as es
        >>> x, y = np.arange(5.0), [2, 3, 1, 0, 1]
        >>> path = tempfile.mkdtemp() + "/fit.zarr"
        >>> model = es.gp.LatentGP(kernels.ExpSquared(scale=1.5), es.likelihoods.Poisson)
        >>> fit = model.fit(x, y, draws=50, seed=1, store=path)
        >>> model.resume(path, x, y, draws=80)
        Fit(LatentGP(f; hyperparameters: none), 5 points, 4 chains of 80 draws)
        """
        inputs, path = as_inputs(X, "X"), as_path(store)
        problem = problem_of(self, inputs, y)
        move = stored_move(self, path, inputs, problem.series)
        tree = resume(
            path, problem.log_likelihood, prior=problem.prior, move=move, keep=problem.keep,
            draws=draws, until=until, executor=executor, timeout=timeout, progress=progress,
        )  # fmt: skip
        return self._fit(X, inputs, y, describe_result(tree, problem.structure, problem.entered, move))

    def open(self, store: str | os.PathLike[str], X: Any, y: Any) -> Fit:
        """Return the fit in a store, for predictions and plots; also during the run that writes it.

        Nothing is run. Only the names of the variables and the number of inputs are compared with the store, so make
        sure that model and data are those of the run.

        Parameters
        ----------
        store : path
            Folder that was given to `fit`.
        X, y : array
            The inputs and data that were given to `fit`.

        Returns
        -------
        Fit
            The draws that are in the store now.

        Raises
        ------
        ValueError
            If the store does not fit the model and the number of inputs, or has no draws yet.
        """
        inputs, path = as_inputs(X, "X"), as_path(store)
        check_draws(path)
        entered = self.components.probe(inputs, y)
        series = time_series(self, inputs, y) if self.parameters.size else None
        move, tree = stored_move(self, path, inputs, series and series.posterior), stored_tree(self, path, inputs)
        return self._fit(X, inputs, y, describe_result(tree, tree.attrs.get("prior", ""), entered, move))

    def _fit(self, X: Any, inputs: np.ndarray, y: Any, tree: Any) -> Fit:
        return Fit(self, inputs, y, with_columns(tree, self, X, inputs))

    def __repr__(self) -> str:
        entered = self.components.entered
        unknown = ", ".join(self.parameters.priors) if entered is None else described(entered)
        return f"LatentGP({', '.join(self.latents)}; hyperparameters: {unknown or 'none'})"

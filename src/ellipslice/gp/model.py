"""`LatentGP`: a Gaussian process seen through any likelihood, from data to draws."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from ellipslice.checks import as_path, whole_number
from ellipslice.gp.fit import Fit
from ellipslice.gp.places import LIKELIHOOD, Places, check_names, described
from ellipslice.gp.problem import Problem, SampleOptions, describe_result, problem_of
from ellipslice.likelihoods import Likelihood
from ellipslice.parameters import choose_parametrisation
from ellipslice.parameters.joint import JointModel
from ellipslice.parameters.joint_update import JointUpdate
from ellipslice.parameters.kernel_factors import KernelFactors
from ellipslice.parameters.named_arguments import ParameterFunction, called_kernel
from ellipslice.parameters.parameters import Parameters
from ellipslice.parameters.parametrisations import check_parametrisations
from ellipslice.priors.parts.features import as_inputs
from ellipslice.sampling import Until, resume
from ellipslice.sampling.arguments import chain_numbers, check_draw_limit, check_timeout
from ellipslice.store.read import open_tree
from ellipslice.store.store import check_free
from ellipslice.store.stored_run import stored_parts
from ellipslice.store.verify import check_draws


class LatentGP:
    """A Gaussian process with a likelihood of any kind, and perhaps unknown parameters.

    Parameters
    ----------
    kernel : tinygp kernel, scikit-learn kernel or function; or a mapping of names to these
        A function is one of the unknown parameters, and returns a kernel: `lambda amplitude, length_scale: amplitude**2
        * tinygp.kernels.Matern52(length_scale)`, or `lambda p: ...` with all of them in a mapping. A mapping makes
        several latent functions, which the likelihood receives by name.
    likelihood : class or function
        Given y it returns the log-likelihood, a function of the latent values at the inputs: a class of
        `es.likelihoods` as it is, `lambda y: Poisson(y, offset=1.5)`, or a function of y and unknown parameters that
        returns one. What it returns may be any function of f, as for `sample`.
    mean : float or function; or a mapping of names to these
        A function of unknown parameters, and of the inputs if it has an argument X.
    parameters : mapping of str to numpyro distribution, optional
        The unknown parameters of kernel, likelihood and mean, with their priors. Each is passed to the argument of its
        name, in one place: a kernel, a mean or the likelihood. A name that matches in two places raises.
    shared : sequence of str, optional
        Names of parameters that are meant to enter several places, such as one length scale for the kernels of two
        latent functions. Default: none.

    Notes
    -----
    An argument that `functools.partial` gives a value is known, and nothing is passed to it. `Fit.hyperparameters` is
    the record of what each parameter enters.

    With parameters that are known, the prior has the structure of kernel and inputs: Markov in time for kernels of
    `tinygp.kernels.quasisep`, a regular grid if there are more than 1,000 inputs, and dense otherwise.

    Unknown parameters of the kernel cost a factorisation for each value that is tried: O(n^3), or O(n r^2) where the
    kernel is so smooth that r columns are all but rounding. Pilot runs at the start find which way of moving them is
    best (see `Fit.parameter_moves`).

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

    def __init__(
        self,
        kernel: Any,
        likelihood: Callable[..., Any],
        *,
        mean: Any = 0.0,
        parameters: Mapping[str, Any] | None = None,
        shared: Sequence[str] = (),
    ):
        if not callable(likelihood) or isinstance(likelihood, Likelihood):
            raise TypeError(
                f"likelihood must be a class or a function that is given y, such as es.likelihoods.Poisson, but it is "
                f"{likelihood!r}. The data are given to fit."
            )
        self.parameters = Parameters(parameters)
        names = list(self.parameters.priors)
        kernels = dict(kernel) if isinstance(kernel, Mapping) else {"f": kernel}
        if not kernels:
            raise ValueError("kernel is an empty mapping: expected a kernel for each latent function.")
        check_names(list(kernels), names)
        means = dict(mean) if isinstance(mean, Mapping) else dict.fromkeys(kernels, mean)
        if unknown := set(means) - set(kernels):
            raise ValueError(f"mean names {unknown.pop()!r}, but the latent functions are {', '.join(kernels)}.")
        self.kernels = {name: called_kernel(f"the kernel of {name}", given, names) for name, given in kernels.items()}
        self.means = {
            name: ParameterFunction(f"the mean of {name}", given, names, extra=("X",))
            if callable(given)
            else float(given)
            for name, given in ((name, means.get(name, 0.0)) for name in kernels)
        }
        self.likelihood = ParameterFunction("likelihood", likelihood, names, first=("y",))
        self.joint = JointModel(self.parameters, KernelFactors(self.parameters, self.kernels, self.means))
        functions = self._functions(isinstance(kernel, Mapping), isinstance(mean, Mapping))
        self.places = Places(functions, self.parameters, shared)
        self.shared = self.places.shared

    def _functions(self, named: bool, each_mean: bool) -> dict[str, ParameterFunction]:
        """Return the functions that hyperparameters are passed to. One mean for all latent functions is one place."""
        places = {f"kernel of {name}" if named else "kernel": kernel for name, kernel in self.kernels.items()}
        for name, mean in self.means.items():
            if isinstance(mean, ParameterFunction):
                places.setdefault(f"mean of {name}" if each_mean else "mean", mean)
        return {**places, LIKELIHOOD: self.likelihood}

    @property
    def latents(self) -> list[str]:
        """The names of the latent functions; one without a name is f."""
        return list(self.kernels)

    @np.errstate(under="ignore")  # products of small covariances, and small weights, are 0
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        draws: int | None = None,
        warmup: int = 500,
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
    ) -> Fit:
        """Draw from the posterior.

        Parameters
        ----------
        X : array, shape (n,) or (n, axes)
            Inputs.
        y : array
            Data, as the likelihood takes them.
        draws, warmup, chains, seed, thin, until, engine, progress
            As for `sample`.
        executor, timeout : optional
            Workers, as for `sample`: for a slow likelihood that JAX cannot trace, or for the chains of a long run on a
            cluster. Pilot runs for unknown parameters have two chains, so they keep two workers busy.
        store : path, optional
            As for `sample`: a folder to which draws are streamed. `resume` goes on with it, `open` reads it.
        reference : optional
            As for `sample`, for strong likelihoods; where all parameters are known.
        parameter_moves : tuple of str, optional
            How to move unknown parameters of the kernel: some of "whitened", "sites", "surrogate" and "fixed_latent"
            (what stays as it is while they move; see the page on unknown parameters). Those that can be are tried at
            the start, and the best is kept, unless given.
        latent_updates : int
            Updates of the latent functions for each one of unknown parameters.
        """
        inputs = as_inputs(X, "X")
        options = SampleOptions(
            draws=draws, warmup=warmup, chains=chains, seed=secrets.randbits(32) if seed is None else seed, thin=thin,
            until=until, engine=engine, reference=reference, store=store, executor=executor, timeout=timeout,
            progress=progress,
        )  # fmt: skip
        if store is not None:
            check_free(as_path(store))
        check_timeout(timeout, executor)
        if not self.parameters.size and parameter_moves is not None:
            raise ValueError("parameter_moves says how to move unknown parameters of the kernel, but there are none.")
        if self.parameters.size and reference is not None:
            raise ValueError("reference is for models without unknown parameters. Leave it out.")
        latent_updates = whole_number("latent_updates", latent_updates, 1, "a whole number, at least 1")
        parametrisations, problem = check_parametrisations(parameter_moves), self._problem(inputs, y)
        options = options._replace(engine=problem.engine if engine is None else engine)
        chosen, initial = self._choose(problem, options, parametrisations, latent_updates)
        tree = problem.sample(options, chosen, initial)
        return self._fit(inputs, y, tree, problem, chosen and chosen.move)

    def _choose(
        self, problem: Problem, options: SampleOptions, parametrisations: tuple[str, ...] | None, latent_updates: int
    ) -> tuple[choose_parametrisation.ChosenMove | None, np.ndarray | None]:
        """Return the move and the starts that pilot runs find; None if there are no unknown hyperparameters."""
        if problem.joint is None:
            return None, None
        numbers = chain_numbers(options.chains)  # a mistake there should not wait for pilot runs
        check_draw_limit(options.draws, options.until)
        own = int(np.random.SeedSequence(options.seed).spawn(1)[0].generate_state(1)[0])  # not the noise of the chains
        chosen = choose_parametrisation.choose_parametrisation(
            problem.joint,
            choose_parametrisation.PilotOptions(
                parametrisations, latent_updates, own, options.engine, options.executor, options.timeout
            ),
        )
        return chosen, chosen.starts(own, numbers)

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
        """Go on with a fit that `fit(..., store=...)` began, or add draws to it: see `ellipslice.resume`.

        The model and the data must be those of the store. Kernel, means, priors and data are compared with what it
        holds, and others refused. How unknown parameters are moved is in the store; pilot runs are not made again.

        Parameters
        ----------
        store : path
            As it was given to `fit`.
        X, y : array
            The data.
        draws, until, executor, timeout, progress
            As for `ellipslice.resume`.

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
        Fit(LatentGP(f; unknown parameters: none), 5 points, 4 chains of 80 draws)
        """
        inputs, path = as_inputs(X, "X"), as_path(store)
        problem, move = self._problem(inputs, y), self._stored_move(path, inputs)
        tree = resume(
            path, problem.log_likelihood, prior=problem.prior, move=move, keep=problem.keep,
            draws=draws, until=until, executor=executor, timeout=timeout, progress=progress,
        )  # fmt: skip
        return self._fit(inputs, y, tree, problem, move)

    def open(self, store: str | os.PathLike[str], X: Any, y: Any) -> Fit:
        """The fit that a store holds, as far as it is, to predict from and to plot; also while it is being made.

        Nothing is run, and of the inputs only their number is compared: the model and the data must be those of the
        store.
        """
        inputs, path = as_inputs(X, "X"), as_path(store)
        check_draws(path)
        move, tree = self._stored_move(path, inputs), open_tree(path)
        expected = {*self.latents, *self.parameters.priors}
        found = {str(name): values.sizes for name, values in tree["posterior"].data_vars.items()}
        if set(found) != expected or any(found[name].get("point") != len(inputs) for name in self.latents):
            raise ValueError(
                f"{path} holds {', '.join(found)}, which is no fit of {self!r} to {len(inputs)} points. Give the model "
                "and the data that it was made with."
            )
        if not tree["posterior"].sizes["draw"]:
            raise ValueError(f"{path} has no draws yet: its chains are in their warm-up.")
        entered = self.places.probe(inputs, y)
        return Fit(self, inputs, y, describe_result(tree, tree.attrs.get("prior", ""), entered, move))

    def _stored_move(self, path: Path, inputs: np.ndarray) -> JointUpdate | None:
        if not self.parameters.size:
            return None
        try:
            return JointUpdate.restored(self.joint, inputs, stored_parts(path, "move"))
        except (ValueError, TypeError, IndexError) as error:
            raise ValueError(f"{path} is no store of {self!r}: {error}") from None

    def _problem(self, inputs: np.ndarray, y: Any) -> Problem:
        return problem_of(self, inputs, y)

    def _fit(self, inputs: np.ndarray, y: Any, tree: Any, problem: Problem, move: JointUpdate | None) -> Fit:
        return Fit(self, inputs, y, describe_result(tree, problem.structure, problem.entered, move))

    def __repr__(self) -> str:
        entered = self.places.entered
        unknown = ", ".join(self.parameters.priors) if entered is None else described(entered)
        return f"LatentGP({', '.join(self.latents)}; unknown parameters: {unknown or 'none'})"

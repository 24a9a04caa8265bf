"""`LatentGP`: a Gaussian process seen through any likelihood, from data to draws."""

from __future__ import annotations

import json
import keyword
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ellipslice.checks import as_path, whole_number
from ellipslice.gp.entering import (
    LIKELIHOOD,
    Enters,
    as_shared,
    check_complete,
    check_shared,
    described,
    enters,
)  # fmt: skip
from ellipslice.gp.fit import Fit
from ellipslice.gp.structure import LIMIT, of_latents, structured
from ellipslice.likelihoods import Likelihood
from ellipslice.likelihoods.arguments import said_before
from ellipslice.parameters import choose_way
from ellipslice.parameters.joint import Joint, JointPrior
from ellipslice.parameters.named_arguments import Called, called_kernel
from ellipslice.parameters.parameters import Parameters
from ellipslice.parameters.point_likelihood import PointLikelihood
from ellipslice.parameters.sweep import WAYS, Sweep
from ellipslice.priors.parts.features import as_inputs
from ellipslice.sampling import Until, resume, sample
from ellipslice.sampling.arguments import chain_numbers, check_draw_limit, check_timeout
from ellipslice.store.read import open_tree
from ellipslice.store.store import check_free
from ellipslice.store.stored_run import stored_parts
from ellipslice.store.verify import check_draws

if TYPE_CHECKING:
    import xarray


class LatentGP:
    """A Gaussian process with a likelihood of any kind, and perhaps unknown parameters.

    Parameters
    ----------
    kernel : tinygp kernel, scikit-learn kernel or function; or a mapping of names to these
        A function is one of the unknown parameters, and returns a kernel: `lambda amplitude, scale: amplitude**2 *
        tinygp.kernels.Matern52(scale)`, or `lambda p: ...` with all of them in a mapping. A mapping makes several
        latent functions, which the likelihood receives by name.
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
    best (see `Fit.moves`).

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
        _check_names(list(kernels), names)
        means = dict(mean) if isinstance(mean, Mapping) else dict.fromkeys(kernels, mean)
        if unknown := set(means) - set(kernels):
            raise ValueError(f"mean names {unknown.pop()!r}, but the latent functions are {', '.join(kernels)}.")
        self.kernels = {name: called_kernel(f"the kernel of {name}", given, names) for name, given in kernels.items()}
        self.means = {
            name: Called(f"the mean of {name}", given, names, extra=("X",)) if callable(given) else float(given)
            for name, given in ((name, means.get(name, 0.0)) for name in kernels)
        }
        self.likelihood = Called("likelihood", likelihood, names, first=("y",))
        self.joint = Joint(self.parameters, self.kernels, self.means)
        self.shared = as_shared(shared, names)
        self._places = self._find_places(isinstance(kernel, Mapping), isinstance(mean, Mapping))
        named = enters(names, {place: called.by_name for place, called in self._places.items()})
        check_shared(named, self.shared, self._places)
        self._enters: Enters | None = None
        if not any(called.takes_all for called in self._places.values()):  # else it is seen when they are called
            check_complete(named, self.shared, self._places)
            self._enters = named

    def _find_places(self, named: bool, each_mean: bool) -> dict[str, Called]:
        """The functions that hyperparameters are passed to. One mean for all latent functions is one place."""
        places = {f"kernel of {name}" if named else "kernel": called for name, called in self.kernels.items()}
        for name, mean in self.means.items():
            if isinstance(mean, Called):
                places.setdefault(f"mean of {name}" if each_mean else "mean", mean)
        return {**places, LIKELIHOOD: self.likelihood}

    def _look_at_places(self, inputs: np.ndarray, y: Any) -> Enters:
        """What each hyperparameter enters; raise if one enters several places by accident, or none."""
        if not any(called.takes_all for called in self._places.values()):
            return self._enters or {}
        middle, _ = self.parameters.gaussian()
        values = self.parameters.constrained(middle)
        used = {}
        for place, called in self._places.items():
            first, extra = ((y,), {}) if place == LIKELIHOOD else ((), {"X": inputs})
            with said_before():  # what a likelihood says of its data, it says when it is made to be used
                used[place] = called.used(values, *first, **extra)
        entered = enters(self.parameters.priors, used)
        check_shared(entered, self.shared, self._places)
        check_complete(entered, self.shared, self._places)
        self._enters = entered
        return entered

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
        ways: tuple[str, ...] | None = None,
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
        ways : tuple of str, optional
            How to move unknown parameters of the kernel: some of "white", "sites", "surrogate" and "fixed" (what stays
            as it is while they move; see the page on unknown parameters). Those that can be are tried at the start, and
            the best is kept, unless given.
        latent_updates : int
            Updates of the latent functions for each one of unknown parameters.
        """
        inputs = as_inputs(X, "X")
        seed = secrets.randbits(32) if seed is None else seed
        if store is not None:
            check_free(as_path(store))
        options: dict[str, Any] = {"draws": draws, "warmup": warmup, "chains": chains, "thin": thin, "until": until}
        options |= {"store": store, "progress": progress, "seed": seed, "executor": executor, "timeout": timeout}
        check_timeout(timeout, executor)
        if not self.parameters.size and ways is not None:
            raise ValueError("ways says how to move unknown parameters of the kernel, but there are none.")
        if self.parameters.size and reference is not None:
            raise ValueError("reference is for models without unknown parameters. Leave it out.")
        latent_updates = whole_number("latent_updates", latent_updates, 1, "a whole number, at least 1")
        ways, problem = _check_ways(ways), self._problem(inputs, y)
        engine = problem.engine if engine is None else engine
        move = None
        if self.parameters.size:
            numbers = chain_numbers(chains)  # a mistake there should not wait for pilot runs
            check_draw_limit(draws, until)
            own = int(np.random.SeedSequence(seed).spawn(1)[0].generate_state(1)[0])  # chains' noise is not for pilots
            chosen = choose_way.choose(
                problem.prior, problem.log_likelihood, problem.of_kernel, problem.of_likelihood,
                ways=ways, latent=latent_updates, seed=own, engine=engine, executor=executor, timeout=timeout,
            )  # fmt: skip
            move, options["initial"] = chosen.move, chosen.starts(own, numbers)
        tree = sample(
            problem.log_likelihood, problem.prior, move=move, keep=problem.keep, engine=engine, reference=reference,
            dims=problem.dims, coords=problem.coords, **options,
        )  # fmt: skip
        return Fit(self, inputs, y, _finished(tree, problem.said, problem.entered, move))

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
        return Fit(self, inputs, y, _finished(tree, problem.said, problem.entered, move))

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
        entered = self._look_at_places(inputs, y)
        return Fit(self, inputs, y, _finished(tree, tree.attrs.get("prior", ""), entered, move))

    def _stored_move(self, path: Path, inputs: np.ndarray) -> Sweep | None:
        if not self.parameters.size:
            return None
        try:
            return Sweep.restored(self.joint, inputs, stored_parts(path, "move"))
        except (ValueError, TypeError, IndexError) as error:
            raise ValueError(f"{path} is no store of {self!r}: {error}") from None

    def _problem(self, inputs: np.ndarray, y: Any) -> _Problem:
        return self._unknown(inputs, y) if self.parameters.size else self._known(inputs, y)

    def _known(self, inputs: np.ndarray, y: Any) -> _Problem:
        log_likelihood = self.likelihood({}, y)
        parts = {
            name: structured(kernel({}), inputs, self._mean_at(name, inputs)) for name, kernel in self.kernels.items()
        }
        function, prior = of_latents(parts, log_likelihood)

        def keep(*f: Any, **latents: Any) -> dict[str, Any]:
            latents = {"f": f[0]} if f else latents
            return {name: parts[name].pick(value) for name, value in latents.items()}

        whole = all(part.where is None and part.prior.shape == (len(inputs),) for part in parts.values())
        said = "; ".join(f"{name}: {part.said}" for name, part in parts.items())
        return _Problem(function, prior, None if whole else keep, *_labels(list(parts), inputs), said)

    def _mean_at(self, name: str, inputs: np.ndarray) -> Any:
        mean = self.means[name]
        return np.asarray(mean({}, X=inputs)) if isinstance(mean, Called) else mean

    def _unknown(self, inputs: np.ndarray, y: Any) -> _Problem:
        if len(inputs) > LIMIT:
            raise ValueError(
                f"there are {len(inputs)} inputs, and with unknown parameters of the kernel at most {LIMIT} are taken."
            )
        joint, parameters, names = self.joint, self.parameters, self.latents
        entered = self._look_at_places(inputs, y)
        of_kernel = {name for name, places in entered.items() if places != [LIKELIHOOD]}
        joint.look(inputs)
        log_likelihood = PointLikelihood(self.likelihood, joint, y, len(inputs))

        def keep(x: Any) -> dict[str, Any]:
            u, _, f = joint.split(x, len(inputs))
            values = parameters.constrained(u) if isinstance(u, np.ndarray) else parameters.constrain(u)
            return {**values, **dict(zip(names, f, strict=True))}

        return _Problem(
            log_likelihood,
            JointPrior(joint, inputs),
            keep,
            *_labels(names, inputs),
            f"dense, {len(inputs)} values, factorised for each value of the parameters",
            None if joint.traceable else "host",
            tuple(parameters.where(of_kernel).tolist()),
            tuple(parameters.where(set(parameters.priors) - of_kernel).tolist()),
            entered,
        )

    def __repr__(self) -> str:
        unknown = ", ".join(self.parameters.priors) if self._enters is None else described(self._enters)
        unknown = unknown or "none"
        return f"LatentGP({', '.join(self.latents)}; unknown parameters: {unknown})"


class _Problem(NamedTuple):
    """What `sample` is asked for, but for the move."""

    log_likelihood: Any
    prior: Any
    keep: Callable[..., Any] | None
    dims: dict[str, list[str]]
    coords: dict[str, Any]
    said: str
    """Of the prior's structure."""
    engine: str | None = None
    of_kernel: tuple[int, ...] = ()
    """Which numbers of u enter kernels and means, and which only the likelihood."""
    of_likelihood: tuple[int, ...] = ()
    entered: Enters = {}  # noqa: RUF012  nobody changes it


def _finished(tree: xarray.DataTree, said: str, entered: Enters, move: Sweep | None) -> xarray.DataTree:
    """The result, with what is said of a fit besides."""
    tree.attrs["structure"] = said
    if move is None:
        return tree
    if move.tuned.pivots is not None:
        widths = " or ".join(map(str, move.tuned.pivots.widths))
        tree.attrs["structure"] += f"; with {widths} columns where these are enough"
    tree.attrs["hyperparameters"] = json.dumps(entered)  # as text, which NetCDF can hold, too
    tree.attrs["parameter_moves"] = " and ".join(move.used) or "f fixed"
    tree.attrs |= {f"rate_of_{way}": rate for way, rate in zip(move.ways, move.tuned.rates, strict=False)}
    return tree


def _labels(latents: list[str], inputs: np.ndarray) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Latent functions are numbered by their points; with one axis, these are labelled by where they are."""
    coords = {"point": inputs.reshape(-1)} if inputs.size == len(inputs) else {}
    return {name: ["point"] for name in latents}, coords


def _check_names(latents: list[str], parameters: list[str]) -> None:
    """Refuse names that the result, a prediction or a mean function has for something else."""
    for name in latents:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"kernel has the name {name!r}; expected one that an argument of the likelihood can have.")
    if clash := set(latents) & set(parameters):
        raise ValueError(f"{clash.pop()!r} is the name of a latent function and of a parameter. Rename one.")
    if "X" in parameters:
        raise ValueError("parameters has the name 'X', by which a mean function receives the inputs. Rename it.")
    for what, names in (("kernel", latents), ("parameters", parameters)):
        for name in names:
            if name in ("chain", "draw", "point"):
                raise ValueError(f"{what} has the name {name!r}, which is a dimension of the result. Rename it.")
    if latents[0] in ("expected", "observed") and len(latents) == 1:
        raise ValueError(f"kernel has the name {latents[0]!r}, which is a variable of predictions. Rename it.")


def _check_ways(ways: Any) -> tuple[str, ...] | None:
    if ways is None:
        return None
    given = (ways,) if isinstance(ways, str) else tuple(ways)
    if not given or any(way not in WAYS for way in given) or len(set(given)) < len(given):
        raise ValueError(f"ways must be some of {', '.join(map(repr, WAYS))}, each once, but it is {ways!r}.")
    return given

"""`LatentGP`: a Gaussian process seen through any likelihood, from data to draws."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ellipslice.gp import mix
from ellipslice.gp.calling import Called
from ellipslice.gp.fit import Fit
from ellipslice.gp.joint import Joint
from ellipslice.gp.likelihood import PointLikelihood
from ellipslice.gp.parameters import Parameters
from ellipslice.gp.structure import LIMIT, Structured, structured
from ellipslice.gp.sweep import WAYS
from ellipslice.likelihoods import Likelihood
from ellipslice.priors import Stack
from ellipslice.priors.features import as_inputs
from ellipslice.priors.kernels import is_kernel
from ellipslice.sampling import Until, sample


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
        The unknown parameters of kernel, likelihood and mean, with their priors.

    Notes
    -----
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
        if clash := set(kernels) & set(names):
            raise ValueError(f"{clash.pop()!r} is the name of a latent function and of a parameter. Rename one.")
        means = dict(mean) if isinstance(mean, Mapping) else dict.fromkeys(kernels, mean)
        if unknown := set(means) - set(kernels):
            raise ValueError(f"mean names {unknown.pop()!r}, but the latent functions are {', '.join(kernels)}.")
        self.kernels = {name: _as_called(f"the kernel of {name}", given, names) for name, given in kernels.items()}
        self.means = {
            name: Called(f"the mean of {name}", given, names, extra=("X",)) if callable(given) else float(given)
            for name, given in ((name, means.get(name, 0.0)) for name in kernels)
        }
        self.likelihood = Called("likelihood", likelihood, names, first=("y",))
        self.joint = Joint(self.parameters, self.kernels, self.means)

    @property
    def latents(self) -> list[str]:
        """The names of the latent functions; one without a name is f."""
        return list(self.kernels)

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
        options: dict[str, Any] = {"draws": draws, "warmup": warmup, "chains": chains, "thin": thin, "until": until}
        options["progress"] = progress
        if not self.parameters.size:
            if ways is not None:
                raise ValueError("ways says how to move unknown parameters of the kernel, but there are none.")
            return self._fit_known(inputs, y, options, seed, engine, reference)
        if reference is not None:
            raise ValueError("reference is for models without unknown parameters. Leave it out.")
        if isinstance(latent_updates, bool) or not isinstance(latent_updates, int) or latent_updates < 1:
            raise ValueError(f"latent_updates must be a whole number, at least 1, but it is {latent_updates!r}.")
        return self._fit_unknown(inputs, y, options, seed, engine, _check_ways(ways), latent_updates)

    def _fit_known(
        self, inputs: np.ndarray, y: Any, options: dict[str, Any], seed: int, engine: str | None, reference: Any
    ) -> Fit:
        log_likelihood = self.likelihood({}, y)
        parts = {
            name: structured(kernel({}), inputs, self._mean_at(name, inputs)) for name, kernel in self.kernels.items()
        }
        function, prior = _of_latents(parts, log_likelihood)
        dims, coords = _labels(list(parts), inputs)

        def keep(*f: Any, **latents: Any) -> dict[str, Any]:
            latents = {"f": f[0]} if f else latents
            return {name: parts[name].pick(value) for name, value in latents.items()}

        whole = all(part.where is None and part.prior.shape == (len(inputs),) for part in parts.values())
        tree = sample(
            function, prior, seed=seed, engine=engine, reference=reference, keep=None if whole else keep,
            dims=dims, coords=coords, **options,
        )  # fmt: skip
        said = "; ".join(f"{name}: {part.said}" for name, part in parts.items())
        tree.attrs["structure"] = said
        return Fit(self, inputs, y, tree)

    def _mean_at(self, name: str, inputs: np.ndarray) -> Any:
        mean = self.means[name]
        return np.asarray(mean({}, X=inputs)) if isinstance(mean, Called) else mean

    def _fit_unknown(
        self,
        inputs: np.ndarray,
        y: Any,
        options: dict[str, Any],
        seed: int,
        engine: str | None,
        ways: tuple[str, ...] | None,
        latent: int,
    ) -> Fit:
        if len(inputs) > LIMIT:
            raise ValueError(
                f"there are {len(inputs)} inputs, and with unknown parameters of the kernel at most {LIMIT} are taken."
            )
        joint = self.joint
        of_kernel = joint.look(inputs)
        log_likelihood = PointLikelihood(self.likelihood, joint, y, len(inputs))
        self._check_used(of_kernel | log_likelihood.used)
        where = tuple(joint.parameters.where(of_kernel).tolist())
        rest = tuple(joint.parameters.where(set(joint.parameters.priors) - of_kernel).tolist())
        engine = engine if joint.traceable or engine is not None else "host"
        own = int(np.random.SeedSequence(seed).spawn(1)[0].generate_state(1)[0])  # the chains' noise is not for pilots
        chosen = mix.choose(
            joint, inputs, log_likelihood, where, rest, ways=ways, latent=latent, seed=own, engine=engine
        )
        d, size = joint.parameters.size, len(self.latents) * len(inputs)

        def keep(x: Any) -> dict[str, Any]:
            return {"u": x[:d], "f": x[d + size :]}

        tree = sample(log_likelihood, chosen.prior, move=chosen.move, keep=keep, seed=seed, engine=engine, **options)
        return Fit(self, inputs, y, self._named(tree, inputs, chosen))

    def _check_used(self, used: set[str]) -> None:
        if unused := [name for name in self.parameters.priors if name not in used]:
            raise ValueError(
                f"the parameter {unused[0]!r} enters neither kernel, mean nor likelihood. Leave it out, or name it as "
                "an argument of one of them."
            )

    def _named(self, tree: Any, inputs: np.ndarray, chosen: mix.Chosen) -> Any:
        """The result with parameters and latent functions by name."""
        import xarray

        posterior = tree["posterior"].to_dataset()
        values = self.parameters.constrained(posterior.u.values)
        latents = posterior.f.values.reshape(*posterior.f.shape[:2], len(self.latents), len(inputs))
        dims, coords = _labels(self.latents, inputs)
        variables = {name: (("chain", "draw", *_axes(name, value)), value) for name, value in values.items()}
        variables |= {name: (("chain", "draw", *dims[name]), latents[:, :, i]) for i, name in enumerate(self.latents)}
        named = xarray.Dataset(variables, {"chain": posterior.chain, "draw": posterior.draw, **coords}, posterior.attrs)
        statistics = tree["sample_stats"].to_dataset().rename(angle="factorisations")
        whole = xarray.DataTree.from_dict({"/": tree.to_dataset(), "posterior": named, "sample_stats": statistics})
        pivots = chosen.prior.pivots
        columns = (
            "" if pivots is None else f" with {' or '.join(map(str, pivots.widths))} columns where these are enough,"
        )
        whole.attrs["structure"] = f"dense, {len(inputs)} values, factorised{columns} for each value of the parameters"
        whole.attrs["parameter_moves"] = " and ".join(chosen.report["ways"]) or "f fixed"
        for way, rate in chosen.report.get("rates", {}).items():
            whole.attrs[f"rate_of_{way}"] = rate
        return whole

    def __repr__(self) -> str:
        unknown = ", ".join(self.parameters.priors) or "none"
        return f"LatentGP({', '.join(self.latents)}; unknown parameters: {unknown})"


def _as_called(what: str, kernel: Any, names: list[str]) -> Called:
    """A kernel as a function of the parameters."""
    if isinstance(kernel, type) or not callable(kernel):
        given = f"the class {kernel.__name__}" if isinstance(kernel, type) else f"a {type(kernel).__name__}"
        raise TypeError(
            f"{what} must be a kernel of tinygp or scikit-learn, or a function that returns one; not {given}."
        )
    if is_kernel(kernel):
        return Called(what, lambda: kernel, names)
    return Called(what, kernel, names)


def _of_latents(parts: dict[str, Structured], log_likelihood: Any) -> tuple[Any, Any]:
    """The log-likelihood and the prior that `sample` takes."""
    if list(parts) == ["f"]:
        part = parts["f"]
        if part.where is None and part.prior.shape == (part.prior.size,):
            return log_likelihood, part.prior
        return (lambda f: log_likelihood(part.pick(f))), part.prior
    prior = Stack({name: part.prior for name, part in parts.items()})

    def function(**latents: Any) -> Any:
        return log_likelihood(**{name: parts[name].pick(value) for name, value in latents.items()})

    return function, prior


def _labels(latents: list[str], inputs: np.ndarray) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Latent functions are numbered by their points; with one axis, these are labelled by where they are."""
    coords = {"point": inputs.reshape(-1)} if inputs.size == len(inputs) else {}
    return {name: ["point"] for name in latents}, coords


def _axes(name: str, value: np.ndarray) -> list[str]:
    return [f"{name}_dim_{i}" for i in range(value.ndim - 2)]


def _check_ways(ways: Any) -> tuple[str, ...] | None:
    if ways is None:
        return None
    given = (ways,) if isinstance(ways, str) else tuple(ways)
    if not given or any(way not in WAYS for way in given) or len(set(given)) < len(given):
        raise ValueError(f"ways must be some of {', '.join(map(repr, WAYS))}, each once, but it is {ways!r}.")
    return given

"""A hyperparameter of `LatentGP` enters one part of the model, unless the user declares it as shared."""

import functools
import inspect
import json
import re

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tinygp import kernels

import ellipslice as es
from ellipslice.apps.fits.model import Data, Problem
from ellipslice.apps.fits.settings import FitSettings
from ellipslice.gp import CoxProcess, LatentGP
from ellipslice.likelihoods import Gaussian, Likelihood, NegativeBinomial, Poisson, StudentT

X = np.linspace(0.0, 2.0, 6)
Y = np.array([2.0, 3.0, 1.0, 0.0, 1.0, 4.0])
PRIOR = dist.LogNormal(0.0, 0.5)
SHORT = {"draws": 6, "warmup": 3, "chains": 1, "seed": 1, "progress": False}

CLASSES = [getattr(es.likelihoods, name) for name in es.likelihoods.__all__]
ARGUMENTS = [
    (likelihood, name)
    for likelihood in CLASSES
    if isinstance(likelihood, type) and not inspect.isabstract(likelihood)
    for name in list(inspect.signature(likelihood).parameters)[1:]
]


def kernel_of(name):
    """Return a function from the hyperparameter of this name to a kernel."""
    return eval(f"lambda {name}: kernels.Matern52({name})", {"kernels": kernels})


def never(*_, **__):
    raise AssertionError("the model was compiled before the names were checked")


@pytest.fixture
def no_compilation(monkeypatch):
    monkeypatch.setattr(es.parameters.kernel_factors.KernelFactors, "probe", never)


def test_all_likelihoods_with_arguments_are_tried():
    assert {
        (StudentT, "noise_scale"),
        (StudentT, "degrees_of_freedom"),
        (Gaussian, "noise_scale"),
        (Poisson, "offset"),
    } <= set(ARGUMENTS)
    assert len(ARGUMENTS) >= 8


@pytest.mark.parametrize(("likelihood", "name"), ARGUMENTS)
def test_a_kernels_hyperparameter_does_not_enter_a_likelihood_by_its_name(likelihood, name, no_compilation):
    """It used to be passed to both: `noise_scale` of a kernel was also the noise scale of `StudentT`."""
    others = {other: PRIOR for one, other in ARGUMENTS if one is likelihood}
    with pytest.raises(ValueError, match=f"'{name}' would enter the kernel and the likelihood") as raised:
        LatentGP(kernel_of(name), likelihood, parameters=others)
    message = str(raised.value)
    assert f"shared=('{name}',)" in message
    assert f"{likelihood.__name__}(y, {name}=likelihood_{name})" in message
    # in a mapping it is detected when the function is called, before compilation
    model = LatentGP(lambda p: kernels.Matern52(p[name]), likelihood, parameters=others)
    with pytest.raises(ValueError, match=f"'{name}' would enter the kernel and the likelihood"):
        model.fit(X, Y, **SHORT)


class Mine(Likelihood):
    """A user-defined likelihood."""

    def __init__(self, y, reach):
        self.y, self.reach = np.asarray(y, float), reach

    def _pointwise(self, f, xp, special):
        return -((f - self.y) ** 2) / self.reach

    def simulate(self, f, rng):
        return np.asarray(f)


def of_user(y, reach=1.0, **options):
    return lambda f: -jnp.sum((f - y) ** 2) / reach


@pytest.mark.parametrize(
    "likelihood",
    [
        Mine,
        of_user,
        lambda y, reach: Gaussian(y, reach),
        lambda y, p: Gaussian(y, p["reach"]),
        lambda y, p: Gaussian(y, p.get("reach")),
        lambda y, p: (lambda reach: Gaussian(y, reach))(**p),
        lambda y, p: Gaussian(y, next(iter(p.values()))),
        lambda y, p: Gaussian(y, dict(p)["reach"]),
        lambda y, p: Gaussian(y, {**p}["reach"]),
        lambda y, p: Gaussian(y, (p | {"other": 1.0})["reach"]),
        lambda y, p: Gaussian(y, p.copy().pop("reach")),
        functools.partial(lambda y, reach, other: Gaussian(y, reach), other=1.0),
        functools.partial(Mine),
    ],
)
@pytest.mark.parametrize("kernel", [kernel_of("reach"), lambda p: kernels.Matern52(p["reach"])])
def test_a_users_likelihood_is_looked_at_in_the_same_way(likelihood, kernel, no_compilation):
    with pytest.raises(ValueError, match="'reach' would enter the kernel and the likelihood"):
        LatentGP(kernel, likelihood, parameters={"reach": PRIOR}).fit(X, Y, **SHORT)


@pytest.mark.parametrize(
    ("given", "places"),
    [
        ({"kernel": kernel_of("s"), "mean": lambda s: s}, "the kernel and the mean"),
        ({"kernel": kernel_of("s"), "mean": lambda X, s: s * X}, "the kernel and the mean"),
        ({"kernel": kernels.Matern52(1.0), "mean": lambda s: s, "likelihood": lambda y, s: Gaussian(y, s)},
         "the mean and the likelihood"),
        ({"kernel": kernel_of("s"), "mean": lambda s: s, "likelihood": lambda y, s: Gaussian(y, s)},
         "the kernel, the mean and the likelihood"),
        ({"kernel": {"g": kernel_of("s"), "h": kernel_of("s")}}, "the kernel of g and the kernel of h"),
        ({"kernel": {"g": kernel_of("s"), "h": kernels.Matern52(1.0)}, "mean": {"h": lambda s: s}},
         "the kernel of g and the mean of h"),
        ({"kernel": {"g": kernels.Matern52(1.0), "h": kernels.Matern52(1.0)},
          "mean": {"g": lambda s: s, "h": lambda s: s}}, "the mean of g and the mean of h"),
    ],
)  # fmt: skip
def test_every_two_places_are_looked_at(given, places):
    with pytest.raises(ValueError, match=re.escape(f"'s' would enter {places}, because")):
        LatentGP(**{"likelihood": Poisson} | given, parameters={"s": PRIOR})
    assert LatentGP(**{"likelihood": Poisson} | given, parameters={"s": PRIOR}, shared=("s",)).shared == ("s",)


def test_cox_processes_say_what_is_shared_too():
    given = {"mean": lambda s: s, "parameters": {"s": PRIOR}}
    with pytest.raises(ValueError, match="'s' would enter the kernel and the mean"):
        CoxProcess(kernel_of("s"), (0.0, 2.0), 4, **given).fit([0.5, 1.0], **SHORT)
    model, _, _ = CoxProcess(kernel_of("s"), (0.0, 2.0), 4, **given, shared=["s"])._model([0.5, 1.0])
    assert model.shared == ("s",)


@pytest.mark.parametrize(
    "likelihood",
    [
        lambda y: StudentT(y, noise_scale=0.3),
        functools.partial(StudentT, noise_scale=0.3),
        functools.partial(functools.partial(StudentT, degrees_of_freedom=3.0), noise_scale=0.3),
        lambda y, noise: StudentT(y, noise_scale=noise),
    ],
)
def test_what_the_user_fixed_is_no_second_place(likelihood):
    noise = {"noise": PRIOR} if "noise" in inspect.signature(likelihood).parameters else {}
    model = LatentGP(kernel_of("noise_scale"), likelihood, parameters={"noise_scale": PRIOR} | noise)
    assert model.components.probe(X, Y)["noise_scale"] == ["kernel"]
    built = model.likelihood({"noise_scale": 5.0, "noise": 0.3}, Y)
    assert built.noise_scale == 0.3


def test_one_mean_for_all_latent_functions_is_one_place():
    latents = {"g": kernel_of("a"), "h": kernel_of("b")}
    model = LatentGP(latents, lambda y: lambda g, h: 0.0, mean=lambda c: c, parameters=dict.fromkeys("abc", PRIOR))
    assert repr(model) == "LatentGP(g, h; hyperparameters: a (kernel of g), b (kernel of h), c (mean))"


@pytest.mark.parametrize(
    ("shared", "error", "message"),
    [
        ("scale", TypeError, "shared=('scale',)"),
        (3, TypeError, "shared must be a sequence of names"),
        (("reach",), ValueError, "shared has 'reach', but the hyperparameters are: scale"),
        (("scale",), ValueError, "shared has 'scale', but it enters the kernel only"),
    ],
)
def test_what_is_shared_must_be(shared, error, message):
    with pytest.raises(error, match=re.escape(message)):
        LatentGP(kernel_of("scale"), Poisson, parameters={"scale": PRIOR}, shared=shared)


@pytest.mark.parametrize("kernel", [kernel_of("scale"), lambda p: kernels.Matern52(p["scale"])])
def test_a_hyperparameter_that_enters_nothing(kernel, no_compilation):
    with pytest.raises(ValueError, match=r"'more' enters neither kernel, mean nor likelihood( \(.*\))?\. Leave it"):
        LatentGP(kernel, Poisson, parameters={"scale": PRIOR, "more": PRIOR}).fit(X, Y, **SHORT)
    with pytest.raises(
        ValueError, match=r"'noise_scale' enters neither .* \(functools.partial gives it a known value in"
    ):
        LatentGP(
            kernel, functools.partial(Gaussian, noise_scale=1.0), parameters={"scale": PRIOR, "noise_scale": PRIOR}
        ).fit(X, Y, **SHORT)


def test_a_name_that_was_misspelt(no_compilation):
    """An argument of a kernel with another name receives the mapping. Every error mentions it."""
    own = "the kernel's argument 'length' is not the name of one, so it was given all of them in a mapping"
    with pytest.raises(ValueError, match=f"'lenght' enters neither kernel, mean nor likelihood .{own}"):
        LatentGP(kernel_of("length"), Poisson, parameters={"lenght": PRIOR}).fit(X, Y, **SHORT)
    with pytest.raises(TypeError) as raised:
        LatentGP(lambda length: kernels.Matern52(1 / length), Poisson, parameters={"lenght": PRIOR}).fit(X, Y, **SHORT)
    assert "whose argument 'length' is not the name of a hyperparameter (they are: lenght)" in raised.value.__notes__[0]


def test_arguments_of_ready_made_likelihoods_are_never_given_a_mapping():
    with pytest.raises(TypeError, match="likelihood has an argument 'dispersion' that is not a hyperparameter"):
        LatentGP(kernel_of("scale"), NegativeBinomial, parameters={"scale": PRIOR})
    with pytest.raises(TypeError, match="likelihood has an argument 'dispersion' that is not a hyperparameter"):
        LatentGP(kernel_of("s"), functools.partial(NegativeBinomial, offset=1.0), parameters={"s": PRIOR})


@pytest.mark.parametrize("name", ["chain", "draw", "point", "X"])
def test_names_that_the_result_or_the_mean_has_for_something_else(name):
    """`draw` used to be rejected only after the pilot runs, and X replaced the inputs of the mean."""
    what = "by which a mean function receives the inputs" if name == "X" else "a dimension of the result"
    with pytest.raises(ValueError, match=f"parameters has the name '{name}', (which is )?{what}"):
        LatentGP(kernel_of(name), Poisson, mean=lambda X: 0.5 * X, parameters={name: PRIOR})


@pytest.mark.parametrize("name", ["chain", "draw", "point", "expected", "predictive", "a b", "lambda", 3])
def test_names_that_latent_functions_cannot_have(name):
    with pytest.raises(ValueError, match=f"kernel has the name {name!r}"):
        LatentGP({name: kernels.Matern52(1.0)}, Poisson)


@pytest.mark.long
def test_the_result_says_what_each_hyperparameter_enters(tmp_path):
    """Declared as shared: kernel and noise have the same variance, so the posterior has one scale."""
    model = LatentGP(
        lambda scale, reach: scale**2 * kernels.Matern52(reach),
        lambda y, p: StudentT(y, p["scale"], p["degrees_of_freedom"]),
        parameters={"scale": PRIOR, "reach": PRIOR, "degrees_of_freedom": PRIOR}, shared=["scale"],
    )  # fmt: skip
    expected = {"scale": ["kernel", "likelihood"], "reach": ["kernel"], "degrees_of_freedom": ["likelihood"]}
    fit = model.fit(X, Y, store=tmp_path / "run.zarr", **SHORT)
    assert fit.hyperparameters == expected
    assert json.loads(fit.tree.attrs["hyperparameters"]) == expected
    assert "scale (kernel and likelihood), reach (kernel), degrees_of_freedom (likelihood)" in repr(fit)
    assert model.open(tmp_path / "run.zarr", X, Y).hyperparameters == expected
    assert model.resume(tmp_path / "run.zarr", X, Y, draws=8).hyperparameters == expected


OWN = {"gaussian": {"noise_scale"}, "student-t": {"noise_scale"}, "negative-binomial": {"dispersion"}}


@pytest.mark.parametrize("name", ["gaussian", "student-t", "negative-binomial", "poisson", "probit", "logistic"])
@pytest.mark.parametrize(
    "known", [{}, {"noise_scale": 0.1, "dispersion": 2.0}, {"amplitude": 1.0}, {"length_scale": (1.0,)}]
)
def test_models_of_the_command_line(name, known):
    """The kernels of the command line take a mapping, and its likelihoods at most one hyperparameter."""
    given = {option: value for option, value in known.items() if option not in ("noise_scale", "dispersion")}
    given |= {option: known[option] for option in OWN.get(name, ()) if option in known}
    problem = Problem(
        FitSettings(("x",), "y", name, **given), Data(X[:, None], np.array([1.0, 0.0, 0.0, 1.0, 1.0, 0.0]))
    )
    found = problem._model().components.probe(X, problem._data.y)
    assert found == {
        **{one: ["kernel"] for one in ("amplitude", "length_scale") if one not in given},
        **{one: ["likelihood"] for one in OWN.get(name, ()) if one not in given},
    }

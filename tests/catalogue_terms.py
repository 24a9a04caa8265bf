"""The terms on which the property tests run. Add a case for each new term, with a dense formula of its precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpyro.distributions as dist
from scipy import linalg
from sklearn import gaussian_process
from tinygp import kernels
from tinygp.kernels import quasisep

from ellipslice.latent.terms import AR1, BYM, BYM2, GP, ICAR, IID, RW1, RW2, Fixed, Generic, Matern, Seasonal, Term

DATA = {
    "g": np.array(list("cabacb")),
    "x": np.array([0.5, -1.0, 2.0, 3.5, 0.25, 1.0]),
    "x2": np.array([10.0, 12.0, 9.0, 11.0, 10.5, 14.0]),
    "day": np.array([0, 1, 2, 3, 4, 5]),
    "age": np.array([20.0, 23.0, 30.0, 31.5, 40.0, 23.0]),
    "week": np.array([3, 4, 9, 4, 6, 3]),
    "region": np.array(list("abcade")),
    "east": np.array([0.5, 2.0, 1.25, 0.7, 2.0, 0.5]),
    "north": np.array([1.0, 1.3, 2.0, 1.5, 1.0, 1.6]),
}
AGES = np.array([20.0, 23.0, 30.0, 31.5, 40.0])
EDGES = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("e", "f"), ("f", "h")]
REGIONS = list("abcdefgh")  # two components, and g without neighbours


class Case(NamedTuple):
    """A term, and its precision."""

    make: Callable[[], Term]
    precision: Callable[..., Any]


def moore_penrose_scaled(structure: np.ndarray) -> np.ndarray:
    """Return a structure matrix times the geometric mean of the variances of its Moore-Penrose inverse."""
    variances = np.diag(np.linalg.pinv(structure, rcond=1e-10, hermitian=True))
    return structure * np.exp(np.log(variances).mean())


def walk(distances: np.ndarray) -> np.ndarray:
    """Return the precision of a random walk of first order, from the sum over increments."""
    n = len(distances) + 1
    out = np.zeros((n, n))
    for i, d in enumerate(distances):
        e = np.zeros(n)
        e[i], e[i + 1] = -1.0, 1.0
        out += np.outer(e, e) / d
    return out


def galerkin(distances: np.ndarray) -> np.ndarray:
    """Return the precision of Lindgren & Rue (2008) for irregular positions: H' B^-1 H, mass matrix B."""
    n = len(distances) + 1
    out = np.zeros((n, n))
    for i in range(1, n - 1):
        before, after = distances[i - 1], distances[i]
        e = np.zeros(n)
        e[i - 1], e[i], e[i + 1] = 1 / before, -(1 / before + 1 / after), 1 / after
        out += np.outer(e, e) / ((before + after) / 2)
    return out


def ring(n: int, order: int) -> np.ndarray:
    """Return the circulant precision of a cyclic walk with equal steps."""
    first = 2 * np.eye(n) - np.roll(np.eye(n), 1, axis=0) - np.roll(np.eye(n), -1, axis=0)
    return np.linalg.matrix_power(first, order)


def laplacian(edges: list[tuple[str, str]] = EDGES, regions: list[str] = REGIONS) -> np.ndarray:
    """Return the precision of an intrinsic autoregression, in which a region without neighbours has variance 1."""
    out = np.zeros((len(regions), len(regions)))
    for a, b in edges:
        i, j = regions.index(a), regions.index(b)
        out[i, i] += 1
        out[j, j] += 1
        out[i, j] = out[j, i] = -1
    return out + np.diag(np.diag(out) == 0)


def scaled_laplacian() -> np.ndarray:
    """Return the precision with every component scaled by itself (Freni-Sterrantino et al. 2018)."""
    out = laplacian()
    for part in ("abcd", "efh"):
        at = np.ix_(*[[REGIONS.index(each) for each in part]] * 2)
        out[at] = moore_penrose_scaled(out[at])
    return out


def joint_bym2(sd: float, phi: float) -> np.ndarray:
    """Return the precision of total effects b and spatial effects u, from p(u) and b | u ~ N(sd sqrt(phi) u)."""
    n = len(REGIONS)
    residual = np.hstack([np.eye(n), -sd * np.sqrt(phi) * np.eye(n)])
    field = linalg.block_diag(np.zeros((n, n)), scaled_laplacian())
    return residual.T @ residual / (sd**2 * (1 - phi)) + field


def autoregression(sd: float, rho: float) -> np.ndarray:
    """Return the inverse of the covariance sd^2 rho^|i - j| of the weeks 3 to 9."""
    return np.linalg.inv(sd**2 * rho ** np.abs(np.subtract.outer(np.arange(7), np.arange(7))))


def seasonal(n: int, period: int) -> np.ndarray:
    """Return the precision of INLA's model "seasonal", from the sum over all sums of `period` successive effects."""
    out = np.zeros((n, n))
    for i in range(n - period + 1):
        e = np.zeros(n)
        e[i : i + period] = 1.0
        out += np.outer(e, e)
    return out


def field(sd: float, range: float) -> np.ndarray:  # noqa: A002
    """Return the precision of Lindgren et al. (2011) on 8 x 7 nodes with spacing 0.5, from C and G."""
    h, kappa = 0.5, np.sqrt(8) / range
    paths = [walk(np.ones(n - 1)) for n in (8, 7)]
    C = h * h * np.eye(56)
    G = np.kron(paths[0], np.eye(7)) + np.kron(np.eye(8), paths[1])
    return (kappa**4 * C + 2 * kappa**2 * G + G @ np.linalg.inv(C) @ G) / (4 * np.pi * kappa**2 * sd**2)


def matern32(x: Any, sd: float, length: float) -> np.ndarray:
    """Return the inverse of the covariance at inputs (n, axes), with 1e-8 of the variance on the diagonal."""
    distance = np.sqrt(((x[:, None] - x) ** 2).sum(-1)) * np.sqrt(3) / length
    return np.linalg.inv(sd**2 * ((1 + distance) * np.exp(-distance) + 1e-8 * np.eye(len(x))))


def quasiseparable(sd: Any, length: Any) -> Any:
    return quasisep.Matern32(length, sigma=sd)


def exponential(sd: Any, length: Any) -> Any:
    return quasisep.Exp(length, sigma=sd)


def forgetting(n: int) -> np.ndarray:
    """Return the factors of covariances in time, (1 - 1e-10)^(|i - j| / 2)."""
    return (1 - 1e-10) ** (np.abs(np.subtract.outer(np.arange(n), np.arange(n))) / 2)


def exponential_covariance(x: np.ndarray, sd: float, length: float) -> np.ndarray:
    return sd**2 * np.exp(-np.abs(np.subtract.outer(x, x)) / length) * forgetting(len(x))


def matern32_states(x: np.ndarray, sd: float, length: float) -> np.ndarray:
    """Return the precision of f(x) and of its slope in units of its standard deviation: f, slope, f, slope, ..."""
    lag = (x[:, None] - x) * np.sqrt(3) / length
    covariance = np.empty((len(x), 2, len(x), 2))
    covariance[:, 0, :, 0] = 1 + np.abs(lag)
    covariance[:, 0, :, 1] = lag
    covariance[:, 1, :, 0] = -lag
    covariance[:, 1, :, 1] = 1 - np.abs(lag)
    covariance *= (sd**2 * np.exp(-np.abs(lag)) * forgetting(len(x)))[:, None, :, None]
    return np.linalg.inv(covariance.reshape(2 * len(x), 2 * len(x)))


def tinygp_kernel(sd: Any, length: Any) -> Any:
    return sd**2 * kernels.Matern32(length, distance=kernels.distance.L2Distance())


def sklearn_kernel(sd: Any, length: Any) -> Any:
    return gaussian_process.kernels.ConstantKernel(sd**2) * gaussian_process.kernels.Matern(length, nu=1.5)


GP_PRIORS = {"sd": dist.HalfNormal(1.0), "length": dist.LogNormal(0.0, 1.0)}
POINTS = np.column_stack([DATA["east"], DATA["north"]])
GAPS = np.diff(AGES) / 5.0  # in multiples of the mean distance
GRAPH = {"graph": EDGES, "regions": REGIONS}
REGULAR = np.array([[2.0, -0.5, 0.0], [-0.5, 1.0, 0.3], [0.0, 0.3, 1.5]])
HOURS = {"values": [0, 6, 7, 12, 20], "cyclic": True, "period": 24}


def irregular_ring() -> np.ndarray:
    """Return the precision of the positions of `HOURS`, whose distances are divided by their mean, 4.8."""
    distances = np.array([6, 1, 5, 8, 4]) / 4.8
    out = np.zeros((5, 5))
    for i in range(5):
        before, after = distances[i - 1], distances[i]
        e = np.zeros(5)
        e[i - 1], e[i], e[(i + 1) % 5] = 1 / before, -(1 / before + 1 / after), 1 / after
        out += np.outer(e, e) / ((before + after) / 2)
    return out


CATALOGUE: dict[str, Case] = {
    "Fixed": Case(lambda: Fixed(["1", "x"], sd=[10.0, 2.0]), lambda: np.diag([0.01, 0.25])),
    "Fixed, a flat coefficient": Case(lambda: Fixed(["1", "x"], sd=["flat", 2.0]), lambda: np.diag([0.0, 0.25])),
    "IID": Case(lambda: IID("g"), lambda sd: np.eye(3) / sd**2),
    "IID, slopes": Case(lambda: IID("g", weights="x"), lambda sd: np.eye(3) / sd**2),
    "RW1": Case(lambda: RW1("day", scale_model=False), lambda sd: walk(np.ones(5)) / sd**2),
    "RW1, irregular, scaled": Case(lambda: RW1("age"), lambda sd: moore_penrose_scaled(walk(GAPS)) / sd**2),
    "RW1, cyclic": Case(lambda: RW1("day", cyclic=True, scale_model=False), lambda sd: ring(6, 1) / sd**2),
    "RW2": Case(lambda: RW2("day", scale_model=False), lambda sd: galerkin(np.ones(5)) / sd**2),
    "RW2, irregular": Case(lambda: RW2("age", scale_model=False), lambda sd: galerkin(GAPS) / sd**2),
    "RW2, scaled, no trend": Case(
        lambda: RW2("age", constraint="trend"), lambda sd: moore_penrose_scaled(galerkin(GAPS)) / sd**2
    ),
    "RW2, cyclic": Case(lambda: RW2("day", cyclic=True), lambda sd: moore_penrose_scaled(ring(6, 2)) / sd**2),
    "RW2, cyclic, free level": Case(
        lambda: RW2("day", cyclic=True, constraint="none", scale_model=False), lambda sd: ring(6, 2) / sd**2
    ),
    "RW2, cyclic, irregular": Case(
        lambda: RW2([6, 12, 7, 20], name="hour", scale_model=False, **HOURS), lambda sd: irregular_ring() / sd**2
    ),
    "AR1": Case(lambda: AR1("week"), autoregression),
    "Seasonal": Case(lambda: Seasonal("week", period=3), lambda sd: seasonal(7, 3) / sd**2),
    "Seasonal, no pattern": Case(
        lambda: Seasonal("week", period=4, constraint="pattern"), lambda sd: seasonal(7, 4) / sd**2
    ),
    "Generic": Case(lambda: Generic("g", Q=REGULAR, labels=list("abc")), lambda sd: REGULAR / sd**2),
    "Generic, null space": Case(
        lambda: Generic("region", Q=laplacian(), labels=REGIONS), lambda sd: laplacian() / sd**2
    ),
    "Generic, flat, scaled": Case(
        lambda: Generic("region", Q=laplacian(), labels=REGIONS, constraint="none", scale_model=True),
        lambda sd: moore_penrose_scaled(laplacian()) / sd**2,
    ),
    "Generic, given null space": Case(
        lambda: Generic("age", Q=galerkin(GAPS), labels=AGES, null=np.array([np.ones(5), AGES]), rank=3),
        lambda sd: galerkin(GAPS) / sd**2,
    ),
    "Matern": Case(lambda: Matern(("east", "north"), spacing=0.5, extension=1.0), field),
    "GP": Case(
        lambda: GP(("east", "north"), kernel=tinygp_kernel, prior=GP_PRIORS),
        lambda sd, length: matern32(np.unique(POINTS, axis=0), sd, length),
    ),
    "GP, scikit-learn": Case(
        lambda: GP("age", kernel=sklearn_kernel, prior=GP_PRIORS),
        lambda sd, length: matern32(AGES[:, None], sd, length),
    ),
    "GP, in time": Case(
        lambda: GP("age", kernel=quasiseparable, prior=GP_PRIORS),
        lambda sd, length: matern32_states(AGES, sd, length),
    ),
    "GP, in time, one state": Case(
        lambda: GP("week", kernel=exponential, prior=GP_PRIORS),
        lambda sd, length: np.linalg.inv(exponential_covariance(np.array([3.0, 4.0, 6.0, 9.0]), sd, length)),
    ),
    "GP, no hyperparameters": Case(
        lambda: GP("day", kernel=1.5**2 * kernels.Matern32(2.0)), lambda: matern32(np.arange(6.0)[:, None], 1.5, 2.0)
    ),
    "GP, a name, in time": Case(
        lambda: GP("age", kernel="matern32"), lambda sd, length_scale: matern32_states(AGES, sd, length_scale)
    ),
    "GP, a name, places": Case(
        lambda: GP(("east", "north"), kernel="matern32"),
        lambda sd, length_scale: matern32(np.unique(POINTS, axis=0), sd, length_scale),
    ),
    "ICAR": Case(lambda: ICAR("region", **GRAPH, scale_model=False), lambda sd: laplacian() / sd**2),
    "ICAR, scaled": Case(lambda: ICAR("region", **GRAPH), lambda sd: scaled_laplacian() / sd**2),
    "ICAR, free levels": Case(
        lambda: ICAR("region", **GRAPH, constraint="none"), lambda sd: scaled_laplacian() / sd**2
    ),
    "BYM": Case(
        lambda: BYM("region", **GRAPH),
        lambda sd_structured, sd_unstructured: linalg.block_diag(
            scaled_laplacian() / sd_structured**2, np.eye(8) / sd_unstructured**2
        ),
    ),
    "BYM2": Case(lambda: BYM2("region", **GRAPH), joint_bym2),
}

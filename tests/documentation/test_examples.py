"""Every example runs on a small problem."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import pytest

from statistical.monte_carlo import SEED, compare

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def closed():
    """Close the figures, which examples leave open for the gallery."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def load(name, smaller=None):
    """Return an example as a module, with some of its text replaced."""
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf8")
    for long, short in (smaller or {}).items():
        assert long in text, "the example has changed; adapt this test"
        text = text.replace(long, short)
    module = types.ModuleType(name)
    exec(compile(text, f"{name}.py", "exec"), vars(module))
    return module


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        "cox_process",
        "evidence",
        "gibbs",
        "million_rows",
        "nested_sampling",
        "offset",
        "predict",
        "scikit_learn",
        "strong_likelihood",
        "truncated_gaussian",
        "unknown_scale",
        *SCRIPTS,
    }


SCRIPTS = {
    "classes": {"label, seed=1": "label, draws=20, warmup=20, seed=1", "60": "12", "draws=400": "draws=20"},
    "engines": {"2_000": "200", "500": "50"},
    "pines": {"prior, seed=1": "prior, draws=20, seed=1"},
    "regions": {"prior, seed=1": "prior, draws=50, seed=1"},
    "time_series": {"6_000": "500", "    seed=1,": "    draws=20, seed=1,", "1_000_000": "1_000"},
    "two_latents": {"x, y, seed=1": "x, y, draws=20, warmup=20, seed=1"},
}
"""Examples without a main function, with the replacements that make them small."""


@pytest.mark.long
@pytest.mark.long_cases("engines", "regions", "time_series")
@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_draw_their_picture(name, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    load(name, SCRIPTS[name])
    said = capsys.readouterr().out
    assert ("evaluations per update" in said) or name == "engines"
    if name == "engines":
        assert float(said.split()[-1]) < 1e-6
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000


@pytest.mark.long
@pytest.mark.parametrize("name", ["predict", "unknown_scale"])
def test_models_with_unknown_parameters(name, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    path = tmp_path / "picture.png"
    small = ["--cells", "30"] if name == "unknown_scale" else []
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--draws", "50", "--picture", str(path), *small])
    load(name, {"uniform(0, 10, 220)": "uniform(0, 10, 70)"} if name == "predict" else {}).main()
    said = capsys.readouterr().out
    assert ("sites" if name == "unknown_scale" else "held-out observations") in said
    assert path.stat().st_size > 10_000


@pytest.mark.long
def test_the_cox_process_draws_a_picture(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    path = tmp_path / "cox.png"
    options = ["--size", "25", "--warmup", "50", "--draws", "20", "--thin", "10", "--picture", str(path)]
    monkeypatch.setattr(sys, "argv", ["cox_process.py", *options])
    module = load("cox_process")
    monkeypatch.setattr(module, "SQUARES", 10)  # the convergence check uses every square
    module.main()
    said = capsys.readouterr().out
    assert "500 updates" in said
    assert "peak memory" in said
    assert path.stat().st_size > 10_000


@pytest.mark.long
def test_the_evidence_says_that_the_rate_of_explosions_changed(tmp_path, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    path = tmp_path / "evidence.png"
    load("evidence").main(scales=(20.0,), particles=100, picture=str(path))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    log_z = {row[0]: float(row[1] if row[0] == "constant" else row[2]) for row in rows}
    assert log_z["constant"] < min(log_z["smooth"], log_z["rough"]) - 25
    assert path.stat().st_size > 10_000


@pytest.mark.long
def test_a_regression_finds_the_weights(tmp_path, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    path = tmp_path / "weights.png"
    load("million_rows").main(rows=2000, columns=3, draws=300, picture=str(path))
    assert path.stat().st_size > 10_000
    said = capsys.readouterr().out
    assert "2000 rows, 3 columns" in said
    for line in said.splitlines():
        if "from the truth" in line:
            assert float(line.split()[-4]) < 0.5


@pytest.mark.long
def test_an_offset_is_better_by_itself(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    module, path = load("offset"), tmp_path / "offset.png"
    monkeypatch.setattr(module, "UPDATES", 1000)
    module.main(picture=str(path))
    assert path.stat().st_size > 10_000
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()[:1].isdigit()]
    ratios = {float(row[0]): float(row[-2]) for row in rows}
    assert ratios[10.0] > 2


@pytest.mark.long
def test_a_reference_moves_where_plain_ellipses_hardly_do(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    path = tmp_path / "strong.png"
    monkeypatch.setattr(sys, "argv", ["strong_likelihood.py", "--draws", "1000", "--picture", str(path)])
    load("strong_likelihood").main()
    rows = {line.split("  ")[0]: line[20:].split() for line in capsys.readouterr().out.splitlines()[1:]}
    assert float(rows['reference="auto"'][1]) > 20 * float(rows["plain"][1])
    assert float(rows['reference="pilot"'][1]) > float(rows["plain"][1])
    assert path.stat().st_size > 10_000


@pytest.mark.long
def test_a_curve_that_rises(tmp_path, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    path = tmp_path / "curve.png"
    load("truncated_gaussian").main(draws=20, picture=str(path))
    free, _, rising, _, _ = capsys.readouterr().out.splitlines()[-5:]
    assert float(free.split()[3].rstrip(",")) > 0.01
    assert float(rising.split()[3].rstrip(",")) < 1e-9
    assert path.stat().st_size > 10_000


@pytest.mark.long
def test_estimators_beside_scikit_learn_s(tmp_path, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    path = tmp_path / "estimators.png"
    load("scikit_learn").main(digits=60, draws=30, picture=str(path))
    said = capsys.readouterr().out
    rows = {line.split("  ")[0]: float(line.split()[-1]) for line in said.splitlines() if line[0] in "EG"}
    assert rows["EllipticalGPRegressor, student-t"] < rows["GaussianProcessRegressor"]
    assert rows["EllipticalGPClassifier"] < 0.6
    assert path.stat().st_size > 10_000


@pytest.mark.long
@pytest.mark.statistical
def test_a_gibbs_loop_has_the_right_posterior(tmp_path, capsys):
    """With one count, compare with the posterior of f and r by quadrature."""
    module, y = load("gibbs"), 7
    functions, levels, _ = module.gibbs(np.array([y]), np.eye(1), 20_000, np.random.default_rng(SEED))
    f, r = np.linspace(-6, 6, 601)[:, None], np.linspace(1e-3, 60, 1200)
    log_p = y * (f + np.log(r)) - r * np.exp(f) - 0.5 * f**2 + (module.SHAPE - 1) * np.log(r) - module.RATE * r
    p = np.exp(log_p - log_p.max())
    compare(functions[None], (p * f).sum() / p.sum(), "f")
    compare(levels[None], (p * r).sum() / p.sum(), "r")
    pytest.importorskip("matplotlib").use("Agg")
    module.main(updates=300, picture=str(tmp_path / "gibbs.png"))
    assert "300 updates" in capsys.readouterr().out
    assert (tmp_path / "gibbs.png").stat().st_size > 10_000


@pytest.mark.long
def test_nested_sampling_along_ellipses_finds_the_evidence(tmp_path, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    path = tmp_path / "nested.png"
    load("nested_sampling").main(size=4, live=100, picture=str(path))
    assert path.stat().st_size > 10_000
    lines = capsys.readouterr().out.splitlines()
    truth = float(lines[0].split()[-1])
    for line in lines[2:]:
        log_z, error, _ = line.split()[-3:]
        assert abs(float(log_z) - truth) < 5 * float(error)

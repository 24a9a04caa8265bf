"""`join` combines only parts of one run, and reads a store only if ellipslice can have written it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse
import xarray

import ellipslice as es
from ellipslice.store.fingerprint import fingerprint, first_difference

X = np.linspace(0, 1, 5)
K = np.exp(-abs(X[:, None] - X) / 0.4)
Y = np.array([0, 1, 2, 0, 1])


def on_the_host(f):
    return -float(np.square(np.asarray(f) - 1.0).sum())


def part(chains, prior=None, log_likelihood=on_the_host, **options):
    options = {"draws": 6, "warmup": 2, "seed": 1, "progress": False, "engine": "host", **options}
    return es.sample(log_likelihood, es.Dense(K) if prior is None else prior, chains=chains, **options)


# --- what must be the same -------------------------------------------------------------------------------------------

LABELLED = {"dims": {"f": ["q"]}, "coords": {"q": list("abcde")}}
OTHERS = {
    "dims": (
        LABELLED,
        {"coords": None, "dims": {"f": ["p"]}},
        r"part 1 .* \(chain, draw, p: 5\), but the first .* q: 5",
    ),
    "no dims": (LABELLED, {"dims": None, "coords": None}, "part 1 .* has posterior/f as float64 with .*f_dim_0: 5"),
    "coords": (LABELLED, {"coords": {"q": list("ABCDE")}}, "the labels A, B, C, ... for q, but the first has a, b, c"),
    "numbers for words": (LABELLED, {"coords": {"q": list(range(5))}}, "posterior/q as int64"),
    "fewer words": (LABELLED, {"coords": {"q": list("abcdE")}}, "labels .* for q"),
    "keep": ({}, {"keep": lambda f: {"a": f}}, "another keep"),
    "other keep": ({"keep": lambda f: {"a": f}}, {"keep": lambda f: {"f": f}}, "part 1 .* has no posterior/a"),
    "fewer values": ({"keep": lambda f: f[:3]}, {"keep": lambda f: f[:2]}, "f_dim_0: 2"),
    "types": ({"keep": lambda f: f}, {"keep": lambda f: f.astype("f4")}, "float32 .* the first has .* float64"),
    "nothing": ({"keep": False}, {"keep": None}, "another keep"),
    "thin": ({"thin": 1}, {"thin": 2}, "thin = 2, but the first with 1"),
    "covariance": ({}, {"prior": es.Dense(5 * K)}, r"another prior .*Dense\(5 values, rank 5\)"),
    "one number": ({}, {"prior": es.Dense(K + np.diag([0, 0, 1e-4, 0, 0]))}, "another prior"),
    "mean": ({}, {"prior": es.Dense(K, mean=1.0)}, "another prior"),
    "step": (
        {"move": es.moves.Local([[0, 1], [2, 3, 4]])},
        {"move": es.moves.Local([[0, 2], [1, 3, 4]])},
        "another move|made with move",
    ),
    "data": (
        {"log_likelihood": es.likelihoods.Poisson(Y)},
        {"log_likelihood": es.likelihoods.Poisson(Y + 1)},
        "another likelihood",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_parts_of_different_runs_are_refused(name):
    first, change, message = OTHERS[name]
    with pytest.raises(ValueError, match=message):
        es.join([part([0], **first), part([1], **{**first, **change})])


def test_parts_of_one_run_are_joined():
    options = {"keep": lambda f: {"a": f > 0, "b": f.sum()}, "dims": {"a": ["q"]}, "coords": {"q": list("abcde")}}
    whole, joined = part([0, 1], **options), es.join([part([1], **options), part([0], **options)])
    assert whole.posterior.to_dataset().identical(joined.posterior.to_dataset().assign_attrs(whole.posterior.attrs))
    fitted = {"reference": "laplace", "engine": None, "log_likelihood": es.likelihoods.Poisson(Y)}
    assert es.join([part([0], **fitted), part([1], **fitted)]).posterior.sizes["chain"] == 2


def test_a_group_that_one_part_lacks():
    extra = part([1])
    extra["more"] = xarray.DataTree(extra.posterior.to_dataset())
    for parts in ([part([0]), extra], [extra, part([0])]):
        with pytest.raises(ValueError, match="no more/"):
            es.join(parts)


def test_results_of_older_versions_are_compared_by_name():
    older = part([1], prior=es.Dense(5 * K))
    del older.attrs["fingerprint"]
    assert es.join([part([0]), older]).posterior.sizes["chain"] == 2


# --- fingerprints -----------------------------------------------------------------------------------------------------

TIMES = np.arange(6.0)
SPARSE = scipy.sparse.csr_array(np.eye(4) * 2 + np.eye(4, k=1) * 0.5 + np.eye(4, k=-1) * 0.5)
PAIRS = {
    "Diagonal": (es.Diagonal(np.ones(300)), es.Diagonal(np.where(np.arange(300) == 77, 1.001, 1.0))),
    "order": (es.Diagonal(np.arange(1.0, 8)), es.Diagonal(np.arange(7.0, 0, -1))),
    "LowRank": (es.LowRank(np.arange(6.0).reshape(3, 2)), es.LowRank(np.arange(6.0).reshape(3, 2)[::-1])),
    "SparsePrecision": (es.SparsePrecision(SPARSE), es.SparsePrecision(2 * SPARSE)),
    "Stack": (es.Stack({"f": es.Dense(K)}), es.Stack({"f": es.Dense(2 * K)})),
    "names": (es.Stack({"f": es.Dense(K)}), es.Stack({"g": es.Dense(K)})),
    "Kronecker": (es.Kronecker(es.Dense(K), es.Dense(2 * K)), es.Kronecker(es.Dense(2 * K), es.Dense(K * 3))),
    "truncated": tuple(es.TruncatedGaussian.box(es.Dense(K), lower=low) for low in (0.0, 0.1)),
    "step": (es.moves.NealMetropolis(0.1), es.moves.NealMetropolis(0.2)),
    "blocks": (es.moves.Local([[0, 1], [2]]), es.moves.Local([[0], [1, 2]])),
    "data": (es.likelihoods.Gaussian(X, 0.2), es.likelihoods.Gaussian(X, 0.3)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_fingerprints_tell_numbers_apart(name):
    one, other = (fingerprint(it=item) for item in PAIRS[name])
    assert first_difference(one, one) is None
    assert first_difference(one, other) == first_difference(other, one) == "it"


def test_fingerprints_forgive_the_rounding_of_another_machine():
    rng = np.random.default_rng(0)
    smooth = np.exp(-0.5 * (np.linspace(0, 1, 40)[:, None] - np.linspace(0, 1, 40)) ** 2) + 1e-6 * np.eye(40)
    noise = 1 + 1e-14 * rng.standard_normal((40, 40))
    assert (
        first_difference(fingerprint(p=es.Dense(smooth)), fingerprint(p=es.Dense(smooth * (noise + noise.T) / 2)))
        is None
    )
    values = rng.random(1000)
    assert first_difference(fingerprint(p=values), fingerprint(p=values * (1 + 1e-14))) is None
    assert first_difference(fingerprint(p=values), fingerprint(p=values * (1 + 1e-6))) == "p"


# --- stores -----------------------------------------------------------------------------------------------------------


DATES = {"dims": {"f": ["q"]}, "coords": {"q": np.arange("2026-01", "2026-06", dtype="M8[M]")}}


@pytest.mark.parametrize("options", [LABELLED, DATES, {"keep": lambda f: f > 0}])
def test_a_store_and_a_result_in_memory_are_joined(options, tmp_path):
    pytest.importorskip("zarr")
    part([0], store=tmp_path / "0.zarr", **options)
    joined = es.join([tmp_path / "0.zarr", part([1], **options)])
    np.testing.assert_array_equal(joined.posterior.f, part([0, 1], **options).posterior.f)


def test_stores_are_joined_and_a_missing_one_is_named(tmp_path):
    pytest.importorskip("zarr")
    for chain in (0, 1):
        part([chain], store=tmp_path / f"{chain}.zarr")
    joined = es.join([tmp_path / "0.zarr", str(tmp_path / "1.zarr")])
    np.testing.assert_array_equal(joined.posterior.f, part([0, 1]).posterior.f)
    with pytest.raises(FileNotFoundError, match=r"no store at .*2\.zarr"):
        es.join([tmp_path / "0.zarr", tmp_path / "2.zarr"])


@pytest.mark.parametrize("codec", ["pickle", "numcodecs.pickle", "gzip", "sharding_indexed"])
def test_a_store_with_another_codec_is_not_read(codec, tmp_path):
    pytest.importorskip("zarr")
    part([0], store=tmp_path / "0.zarr")
    file = tmp_path / "0.zarr" / "zarr.json"
    root = json.loads(file.read_bytes())
    root["consolidated_metadata"]["metadata"]["posterior/f"]["codecs"].append({"name": codec, "configuration": {}})
    file.write_text(json.dumps(root))
    with pytest.raises(ValueError, match=f"posterior/f is encoded by .*{codec}"):
        es.join([tmp_path / "0.zarr", part([1])])

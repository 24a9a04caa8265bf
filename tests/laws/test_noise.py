"""The random numbers come from a known generator, are uniform, and are a pure function of (seed, chain, block)."""

from __future__ import annotations

import inspect
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from catalogue import PRIORS, SEEDS
from ellipslice import noise
from ellipslice.priors import Diagonal

LEAST = 1e-6  # significance level: smaller p-values are not due to chance
NORMALS = Diagonal(np.ones(7))

# --- Threefry -------------------------------------------------------------------------------------------------------

# The known answers of Random123, the library of the authors (kat_vectors, threefry2x32 with 20 rounds): counter, key,
# result.
KNOWN_ANSWERS = [
    ("00000000 00000000", "00000000 00000000", "6b200159 99ba4efe"),
    ("ffffffff ffffffff", "ffffffff ffffffff", "1cb996fc bb002be7"),
    ("243f6a88 85a308d3", "13198a2e 03707344", "c4923a9c 483df7a0"),
]


def words(text):
    return [np.array([int(word, 16)], np.uint32) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN_ANSWERS)
def testthreefry_gives_the_known_answers(counter, key, result):
    got = noise.threefry(*words(key), *words(counter))
    assert [f"{int(word[0]):08x}" for word in got] == result.split()
    with jax.enable_x64(True):
        got = jax.jit(noise.threefry)(*words(key), *words(counter))
    assert [f"{int(word[0]):08x}" for word in got] == result.split()


def test_numpy_and_jax_give_the_same_bits():
    rng = np.random.default_rng(0)
    key = rng.integers(0, 2**32, (500, 2), dtype=np.uint32)
    key[:4] = [[0, 0], [2**32 - 1, 2**32 - 1], [0, 1], [1, 0]]
    for index in (np.uint32(0), np.uint32(1), np.uint32(2**32 - 1)):
        ours = noise.uniform(key, np.full(500, index, np.uint32))
        with jax.enable_x64(True):
            plain = noise.uniform(jnp.asarray(key), jnp.full(500, index, jnp.uint32))
            compiled = jax.jit(noise.uniform)(key, np.full(500, index, np.uint32))
            batched = jax.vmap(lambda k, index=index: noise.uniform(k, jnp.uint32(index)))(jnp.asarray(key))
        assert ours.dtype == plain.dtype == compiled.dtype == np.float64
        for other in (plain, compiled, batched):
            np.testing.assert_array_equal(ours, other)


def test_the_index_is_the_counter():
    key = np.array([[3, 5]], np.uint32)
    for index in (0, 1, 77):
        high, low = noise.threefry(key[:, 0], key[:, 1], np.array([index], np.uint32), np.array([0], np.uint32))
        expected = ((int(high[0]) >> 5) * 2**26 + (int(low[0]) >> 6)) / 2**53
        assert noise.uniform(key, np.array([index], np.uint32))[0] == expected


def test_uniforms_lie_in_the_half_open_interval(monkeypatch):
    key, index = np.zeros((1, 2), np.uint32), np.zeros(1, np.uint32)
    for word, expected in ((0, 0.0), (2**32 - 1, 1 - 2.0**-53)):
        words = (np.array([word], np.uint32),) * 2
        monkeypatch.setattr(noise, "threefry", lambda *_, words=words: words)
        assert noise.uniform(key, index)[0] == expected < 1.0


def uniforms(kind, seed):
    rng = np.random.default_rng(seed)
    if kind == "one key, many indices":
        return noise.uniform(rng.integers(0, 2**32, (1, 2), dtype=np.uint32), np.arange(20_000, dtype=np.uint32))
    if kind == "many keys, one index":
        return noise.uniform(rng.integers(0, 2**32, (20_000, 2), dtype=np.uint32), np.ones(20_000, np.uint32))
    keys = np.stack([np.arange(20_000), np.full(20_000, seed)], axis=1).astype(np.uint32)
    return noise.uniform(keys, np.zeros(20_000, np.uint32))  # from neighbouring keys


@pytest.mark.statistical
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["one key, many indices", "many keys, one index", "neighbouring keys"])
def test_uniforms_are_uniform(kind, seed):
    u = uniforms(kind, seed)
    assert u.min() >= 0.0
    assert u.max() < 1.0
    assert stats.kstest(u, "uniform").pvalue > LEAST
    pairs, _, _ = np.histogram2d(u[:-1:2], u[1::2], bins=16, range=[[0, 1], [0, 1]])
    assert stats.chisquare(pairs.ravel()).pvalue > LEAST  # neighbours are independent
    last_bits = np.bincount((u * 2**53).astype(np.int64) % 64, minlength=64)
    assert stats.chisquare(last_bits).pvalue > LEAST
    assert len(np.unique(u)) == len(u)  # a repeat has probability 2e-8


# --- blocks ---------------------------------------------------------------------------------------------------------


def block(seed=0, chain=0, number=0, length=16, parts=1, prior=NORMALS):
    return noise.draw_block(noise.NoiseSpec.from_prior(prior, 7, parts), seed, chain, number, length)


def equal(one, two):
    return [np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)]


def test_shapes():
    nu, level, uniforms = block(parts=3, length=16)
    first, key = uniforms.first, uniforms.key
    assert (nu.shape, level.shape) == ((16, 3, 7), (16, 3))
    assert (first.shape, key.shape) == ((16, 3, noise.DRAWN_UNIFORMS), (16, 3, 2))
    assert key.dtype == np.uint32
    assert first.dtype == np.float64
    assert ((first >= 0) & (first < 1)).all()
    assert level.dtype == np.float64
    assert nu.dtype == np.float64
    assert (level >= 0).all()


@pytest.mark.parametrize("name", ["Dense", "Diagonal, two axes", "LowRank", "FromDraws", "FromDraws, batched", "Stack"])
def test_a_block_does_not_depend_on_what_was_drawn_before(name):
    prior = PRIORS[name]()
    first = block(seed=5, chain=3, number=2, prior=prior)
    np.random.seed(0)  # noqa: NPY002  the global generator must not matter either
    for other in itertools.product((5, 6), (0, 3), (0, 2)):
        block(*other, prior=prior)
    assert all(equal(first, block(seed=5, chain=3, number=2, prior=PRIORS[name]())))


def test_blocks_differ_between_seeds_chains_and_numbers():
    # All vectors of a thousand blocks differ: nothing is repeated, not even shifted by some updates.
    seeds = (0, 1, 2, 7, 2**31, 2**32, 2**63 + 1, 2**100, 10**40, 3)
    blocks = [block(*path) for path in itertools.product(seeds, range(10), range(10))]
    starts = [noise.start_generator(seed, chain).standard_normal((1, 7)) for seed in seeds for chain in range(10)]
    for field, more in enumerate((starts, [], [], [])):
        rows = np.concatenate([np.asarray(jax.tree.leaves(b)[field]).reshape(16, -1) for b in blocks] + more)
        assert len(np.unique(rows, axis=0)) == len(rows)


def test_uniforms_go_on_without_end():
    """The numbers are equal one by one on the host, as a table, and in compiled code."""
    uniforms = block(seed=3, length=16).uniforms[5, 0]
    numbers = [uniforms(k) for k in range(100)]
    assert numbers[: noise.DRAWN_UNIFORMS] == uniforms.first.tolist()
    assert numbers[noise.DRAWN_UNIFORMS :] == uniforms.beyond(np.arange(noise.DRAWN_UNIFORMS, 100)).tolist()
    assert len(set(numbers)) == 100
    with jax.enable_x64(True):
        compiled = jax.jit(lambda u, k: u(k))
        assert [float(compiled(uniforms, np.int32(k))) for k in range(100)] == numbers


@pytest.mark.statistical
@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_are_independent_of_each_other(seed):
    # Correlations between the random numbers of neighbouring chains, blocks and seeds are those of independent numbers.
    base = block(seed=seed, length=2048)
    for other in (block(seed, 1, 0, 2048), block(seed, 0, 1, 2048), block(seed + 1, 0, 0, 2048)):
        pairs = [(base.nu, other.nu), (base.nu[1:], other.nu[:-1])]
        pairs += [(base.level - 1, other.level - 1), (base.level[:, 0] - 1, other.nu[:, 0, 0])]
        for a, b in pairs:
            product = np.ravel(np.asarray(a) * np.asarray(b))
            z = product.sum() / np.sqrt((product**2).sum())
            assert 2 * stats.norm.sf(abs(z)) > LEAST


@pytest.mark.statistical
@pytest.mark.parametrize("seed", SEEDS)
def test_the_parts_of_an_update_s_noise_are_independent(seed):
    """The parts are independent of each other and of those of the next update."""
    one = block(seed=seed, length=8192)
    uniforms = np.concatenate([one.uniforms.first[:, 0, :8], one.uniforms.key[:, 0] / 2.0**32], axis=1)
    columns = np.concatenate(
        [np.asarray(one.nu)[:, 0], stats.norm.ppf(stats.expon.cdf(one.level)), uniforms - 0.5], axis=1
    )
    columns /= columns.std(axis=0)
    for a, b in ((columns, columns), (columns[1:], columns[:-1]), (columns**2 - 1, columns)):
        z = (a - a.mean(axis=0)).T @ (b - b.mean(axis=0)) / np.sqrt((a**2).T @ (b**2))
        if a is b:
            z = z[np.triu_indices(len(z), 1)]
        assert 2 * stats.norm.sf(np.abs(z).max()) * z.size > LEAST


@pytest.mark.statistical
@pytest.mark.parametrize("seed", SEEDS)
def test_a_block_has_the_distributions_it_should(seed):
    nu, level, uniforms = block(seed=seed, length=4096, parts=2)
    first, key = uniforms.first, uniforms.key
    assert stats.kstest(np.ravel(nu), "norm").pvalue > LEAST
    assert stats.kstest(level.ravel(), "expon").pvalue > LEAST
    assert stats.kstest(first.ravel(), "uniform").pvalue > LEAST
    assert stats.kstest(key.ravel() / 2.0**32, "uniform").pvalue > LEAST
    assert stats.kstest(noise.uniform(key, np.zeros((4096, 2), np.uint32)).ravel(), "uniform").pvalue > LEAST


def test_block_length_is_a_function_of_size_alone():
    assert list(inspect.signature(noise.block_length).parameters) == ["size"]
    sizes = np.unique(np.geomspace(1, 10**7, 300).astype(int)).tolist()
    lengths = [noise.block_length(size) for size in sizes]
    assert lengths == [noise.block_length(size) for size in sizes] == sorted(lengths, reverse=True)
    for size, length in zip(sizes, lengths, strict=True):
        assert length in (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
        # About 4 x 10^5 numbers, except for the smallest and largest sizes.
        assert length == 2048 or length * size > 2.6e5
        assert length == 8 or length * size <= 2**19

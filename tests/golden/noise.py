"""Random numbers that are equal on every machine: those of `draw_block`, and those that are made from keys."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

import ellipslice as es
from ellipslice import noise
from ellipslice.engines.device import noise as device_noise
from ellipslice.engines.host.search import group_size

PRIOR = es.Diagonal([1.0, 4.0, 0.25])  # powers of two, so that draws are not rounded
ONE, TWO = (noise.NoiseSpec.from_prior(PRIOR, 3, searches) for searches in (1, 2))
THREE_DRAWS = noise.NoiseSpec(
    lambda rng, updates: PRIOR.draw_zero_mean(rng, 3 * updates).reshape(updates, 3, 3), searches=2
)
ASKED = {
    "first block": {"spec": ONE, "seed": 5, "chain": 0, "block": 0, "length": 8},
    "another block": {"spec": ONE, "seed": 5, "chain": 3, "block": 7, "length": 8},
    "two parts": {"spec": TWO, "seed": 2**40, "chain": 1, "block": 0, "length": 8},
    "three draws for two parts": {"spec": THREE_DRAWS, "seed": 5, "chain": 0, "block": 1, "length": 8},
}


def describe_noise() -> dict[str, Any]:
    """Return the random numbers of a few blocks, the lengths of blocks, and the keys of chains and updates."""
    keys = device_noise.chain_keys(5, [0, 1, 7])
    return {
        "blocks": {name: _block(**asked) for name, asked in ASKED.items()},
        "start": noise.start_generator(5, 3).random(4).tolist(),
        "uniforms beyond the first": noise.draw_block(**ASKED["first block"])
        .uniforms[0, 0]
        .beyond(np.arange(33, 37))
        .tolist(),
        "block_length": {str(size): noise.block_length(size) for size in (1, 7, 200, 255, 256, 767, 5000, 100_000)},
        "group_size": {str(size): group_size(size) for size in (1, 7, 512, 513, 5000, 100_000)},
        "chain_keys": keys.tolist(),
        "update_keys": np.asarray(device_noise.update_keys(keys, np.uint32(4), 3)).tolist(),
    }


def _block(**asked: Any) -> dict[str, Any]:
    drawn = noise.draw_block(**asked)
    fields = {
        "nu": np.asarray(drawn.drawn, dtype="<f8"),
        "level": np.asarray(drawn.level, dtype="<f8"),
        "uniforms": np.asarray(drawn.uniforms.first, dtype="<f8"),
        "key": np.asarray(drawn.uniforms.key, dtype="<u4"),
    }
    return {
        name: {
            "shape": list(values.shape),
            "sha256": hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest(),
            "first": values.ravel()[:4].tolist(),
        }
        for name, values in fields.items()
    }

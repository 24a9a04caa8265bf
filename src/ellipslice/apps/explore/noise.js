"use strict";

// All random numbers, as a pure function of (seed, update). They are drawn before the first evaluation of the update.
// The generator is that of the library (noise.py): Threefry-2x32 with 20 rounds, Salmon et al. 2011.

const ROTATIONS = [
  [13, 15, 26, 6],
  [17, 29, 16, 24],
];

/** Return two random words from a key and a counter of two words each. */
function threefry(key0, key1, x0, x1) {
  const keys = [key0, key1, key0 ^ key1 ^ 0x1bd11bda];
  x0 = (x0 + keys[0]) | 0;
  x1 = (x1 + keys[1]) | 0;
  for (let group = 0; group < 5; group++) {
    for (const rotation of ROTATIONS[group % 2]) {
      x0 = (x0 + x1) | 0;
      x1 = ((x1 << rotation) | (x1 >>> (32 - rotation))) ^ x0;
    }
    x0 = (x0 + keys[(group + 1) % 3]) | 0;
    x1 = (x1 + keys[(group + 2) % 3] + group + 1) | 0;
  }
  return [x0 >>> 0, x1 >>> 0];
}

/** Return uniform number `index` on [0, 1) of a key. Different `stream`s are independent. */
function uniform(key0, key1, index, stream = 0) {
  const [high, low] = threefry(key0, key1, index, stream);
  return ((high >>> 5) * 2 ** 26 + (low >>> 6)) * 2 ** -53;
}

/** Return two standard normals from two uniforms (Box and Muller). */
function normals(u, v) {
  const radius = Math.sqrt(-2 * Math.log1p(-u));
  return [radius * Math.cos(2 * Math.PI * v), radius * Math.sin(2 * Math.PI * v)];
}

/**
 * Return the random numbers of one update: nu, a draw from the prior; level, a standard exponential; uniform(k), for
 * any k. All methods use the same random numbers, so that they can be compared.
 */
function noiseOf(prior, seed, update) {
  const other = (index) => uniform(seed, update, index, 1);
  return {
    nu: prior.color(normals(other(0), other(1))),
    level: -Math.log1p(-other(2)),
    uniform: (k) => uniform(seed, update, k),
  };
}

/** Return the initial state: the first draw from the prior at which the likelihood is not zero. */
function startOf(prior, logLikelihood, seed) {
  for (let trial = 0; trial < 10000; trial++) {
    const f = prior.color(normals(uniform(seed, trial, 0, 2), uniform(seed, trial, 1, 2)));
    if (logLikelihood(f) > -Infinity) return f;
  }
  return [0, 0];
}

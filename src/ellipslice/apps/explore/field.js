"use strict";

// Functions of two values on a grid, for shading, contours and integrals.

/** Return countX x countY values of a function over a rectangle. */
function makeField(log, [left, right], [low, high], countX, countY) {
  const values = new Float64Array(countX * countY);
  const dx = (right - left) / (countX - 1);
  const dy = (high - low) / (countY - 1);
  for (let j = 0; j < countY; j++) {
    for (let i = 0; i < countX; i++) values[j * countX + i] = log([left + i * dx, low + j * dy]);
  }
  return { values, countX, countY, left, low, dx, dy };
}

/** Return the contour of a field at a level: line segments [x, y, x, y], by marching squares. */
function contour({ values, countX, countY, left, low, dx, dy }, level) {
  const segments = [];
  const between = (a, b) => {
    const t = (level - a) / (b - a);
    return Number.isFinite(a) && Number.isFinite(b) ? t : 0.5; // at a hard edge, use the middle of the cell
  };
  for (let j = 0; j + 1 < countY; j++) {
    for (let i = 0; i + 1 < countX; i++) {
      const at = j * countX + i;
      const corners = [values[at], values[at + 1], values[at + 1 + countX], values[at + countX]];
      const above = corners.map((value) => value > level);
      const crossings = [];
      for (let side = 0; side < 4; side++) {
        const next = (side + 1) % 4;
        if (above[side] === above[next]) continue;
        const t = between(corners[side], corners[next]);
        const [x, y] = [
          [t, 0],
          [1, t],
          [1 - t, 1],
          [0, 1 - t],
        ][side];
        crossings.push(left + (i + x) * dx, low + (j + y) * dy);
      }
      for (let k = 0; k + 3 < crossings.length; k += 4) segments.push(crossings.slice(k, k + 4));
    }
  }
  return segments;
}

/** Return the posterior on a fine grid, for comparison with the draws. */
function makeTruth(prior, logLikelihood) {
  const count = 320;
  const logDensity = (f) => prior.logDensity(f) + logLikelihood(f);
  const [rangeX, rangeY] = supportOf(logDensity, prior.sd);
  const field = makeField(logDensity, rangeX, rangeY, count, count);
  const top = field.values.reduce((most, value) => Math.max(most, value), -Infinity);
  const weights = field.values.map((value) => Math.exp(value - top));
  const columns = {
    f1: new Float64Array(count ** 2),
    f2: new Float64Array(count ** 2),
    logL: new Float64Array(count ** 2),
  };
  for (let k = 0; k < count ** 2; k++) {
    const f = [field.left + (k % count) * field.dx, field.low + Math.floor(k / count) * field.dy];
    columns.f1[k] = f[0];
    columns.f2[k] = f[1];
    columns.logL[k] = logLikelihood(f);
  }
  const spacing = { f1: field.dx, f2: field.dy };
  return {
    logDensity,
    top,
    weights,
    columns,
    count,
    spacing,
    levels: massLevels(field.values, weights, [0.5, 0.9, 0.99]),
  };
}

/** Return a rectangle that contains nearly all of the posterior mass, from a coarse grid. */
function supportOf(logDensity, sd) {
  const count = 120;
  const [reachX, reachY] = sd.map((one) => [-4.5 * one, 4.5 * one]);
  const { values, left, low, dx, dy } = makeField(logDensity, reachX, reachY, count, count);
  const top = Math.max(...values);
  let [i0, i1, j0, j1] = [count, 0, count, 0];
  values.forEach((value, k) => {
    if (!(value > top - 25)) return;
    const [i, j] = [k % count, Math.floor(k / count)];
    [i0, i1, j0, j1] = [Math.min(i0, i), Math.max(i1, i), Math.min(j0, j), Math.max(j1, j)];
  });
  const [marginX, marginY] = [3 * dx, 3 * dy];
  return [
    [left + i0 * dx - marginX, left + i1 * dx + marginX],
    [low + j0 * dy - marginY, low + j1 * dy + marginY],
  ];
}

/** Return the log densities of the regions of highest density that contain these fractions of the mass. */
function massLevels(values, weights, shares) {
  const order = [...values.keys()].filter((k) => weights[k] > 1e-12).sort((a, b) => weights[b] - weights[a]);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let sum = 0;
  let next = 0;
  const levels = [];
  for (const k of order) {
    sum += weights[k];
    while (next < shares.length && sum >= shares[next] * total) {
      levels.push(values[k]);
      next++;
    }
  }
  return levels;
}

/** Return the posterior density of f1, f2 or log L as points [value, density] of a curve. */
function exactDensity({ weights, columns, count, spacing }, name, low, high, bins) {
  if (name === "logL") {
    // values of log L are not sorted on the grid, so draw a histogram
    const width = (high - low) / bins;
    const steps = [...histogram(columns.logL, low, high, bins, weights)];
    return steps.flatMap((step, k) => [
      [low + k * width, step],
      [low + (k + 1) * width, step],
    ]);
  }
  const sums = new Float64Array(count);
  let total = 0;
  for (let k = 0; k < weights.length; k++) {
    sums[name === "f1" ? k % count : Math.floor(k / count)] += weights[k];
    total += weights[k];
  }
  const at = (k) => columns[name][name === "f1" ? k : k * count];
  return [...sums]
    .map((sum, k) => [at(k), sum / total / spacing[name]])
    .filter(([value]) => value >= low && value <= high);
}

/** Return mean and range of a quantity, without points of negligible weight. */
function describe({ weights, columns }, name) {
  const column = columns[name];
  let [total, mean, low, high] = [0, 0, Infinity, -Infinity];
  for (let k = 0; k < column.length; k++) {
    if (weights[k] < 3e-4) continue;
    total += weights[k];
    mean += weights[k] * column[k];
    low = Math.min(low, column[k]);
    high = Math.max(high, column[k]);
  }
  return { mean: mean / total, low, high };
}

"use strict";

// Summaries of a trace.

/** Return a trace without its first tenth, which is warm-up. */
function afterWarmup(trace) {
  return trace.slice(Math.floor(trace.length / 10));
}

/** Return the autocovariances of a trace at lags 0 to `most`. */
function autocovariances(trace, most) {
  const n = trace.length;
  const mean = average(trace);
  const centred = Float64Array.from(trace, (x) => x - mean);
  const found = [];
  for (let lag = 0; lag <= Math.min(most, n - 1); lag++) {
    let sum = 0;
    for (let i = lag; i < n; i++) sum += centred[i] * centred[i - lag];
    found.push(sum / n);
  }
  return found;
}

function total(trace) {
  let sum = 0;
  for (const x of trace) sum += x;
  return sum;
}

function average(trace) {
  return total(trace) / trace.length;
}

/**
 * Return the effective sample size by the estimator of R's coda, as in `diagnostics.effective_sample_size`.
 * It compares the variance with the spectral density at frequency 0 of an autoregression of the order chosen by AIC.
 */
function effectiveSize(trace) {
  const n = trace.length;
  if (n < 2) return 0;
  const covariances = autocovariances(trace, Math.floor(10 * Math.log10(n)));
  if (covariances[0] < 1e-16) return 0; // the chain never moved
  let coefficients = [];
  let variance = covariances[0];
  let best = n * Math.log(variance);
  let spectrum = (variance * n) / (n - 1);
  for (let order = 1; order < covariances.length; order++) {
    // Levinson-Durbin recursion
    let partial = covariances[order];
    coefficients.forEach((c, i) => (partial -= c * covariances[order - 1 - i]));
    partial /= variance;
    coefficients = [...coefficients.map((c, i) => c - partial * coefficients[order - 2 - i]), partial];
    variance *= 1 - partial ** 2;
    const criterion = n * Math.log(variance) + 2 * order;
    if (criterion < best) {
      const correction = order < n - 1 ? n / (n - order - 1) : Infinity;
      best = criterion;
      spectrum = (correction * variance) / (1 - coefficients.reduce((sum, c) => sum + c, 0)) ** 2;
    }
  }
  return (n * ((covariances[0] * n) / (n - 1))) / spectrum;
}

/** Return a histogram with `count` bins between low and high, as a density. */
function histogram(trace, low, high, count, weights = null) {
  const bins = new Float64Array(count);
  const scale = count / (high - low);
  let all = 0;
  for (let i = 0; i < trace.length; i++) {
    const weight = weights ? weights[i] : 1;
    const bin = Math.floor((trace[i] - low) * scale);
    all += weight;
    if (bin >= 0 && bin < count) bins[bin] += weight;
  }
  return bins.map((sum) => (all ? (sum * scale) / all : 0));
}

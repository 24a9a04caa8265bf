"use strict";

// Models: Gaussian priors of two values, and likelihoods.

/** Return N(0, Sigma) with two standard deviations and a correlation. */
function gaussianPrior(sd1, sd2, correlation) {
  const rest = Math.sqrt(1 - correlation ** 2);
  const determinant = (sd1 * sd2 * rest) ** 2;
  const covariance = correlation * sd1 * sd2;
  const prior = {
    sd: [sd1, sd2],
    /** Return a draw from two standard normals. */
    color: ([z1, z2]) => [sd1 * z1, sd2 * (correlation * z1 + rest * z2)],
    /** Return the inverse of Sigma times a vector. */
    solve: ([a, b]) => [(sd2 ** 2 * a - covariance * b) / determinant, (sd1 ** 2 * b - covariance * a) / determinant],
    /** Return the log density, up to a constant. */
    logDensity(f) {
      const [a, b] = prior.solve(f);
      return -0.5 * (f[0] * a + f[1] * b);
    },
  };
  return prior;
}

const PRIORS = {
  round: { name: "round", sd1: 1, sd2: 1, correlation: 0 },
  correlated: { name: "correlated", sd1: 1, sd2: 1, correlation: 0.9 },
  opposed: { name: "anti-correlated", sd1: 1, sd2: 1, correlation: -0.7 },
  long: { name: "long and thin", sd1: 1.2, sd2: 0.3, correlation: 0 },
};

const gaussian = (x, mean, sd) => -0.5 * ((x - mean) / sd) ** 2;
const logSumExp = (a, b) => Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b)));

const LIKELIHOODS = {
  gaussian: {
    name: "Gaussian",
    about: "Both values are observed with Gaussian noise, so the posterior is Gaussian, too.",
    log: ([a, b]) => gaussian(a, 1.1, 0.5) + gaussian(b, 0.8, 0.5),
  },
  logistic: {
    name: "logistic: one label",
    about: "One label indicates on which side of a line f probably lies: a soft half-plane.",
    log: ([a, b]) => -logSumExp(0, -5 * (a + b - 0.5)),
  },
  banana: {
    name: "banana",
    about: "Only f₂ − f₁² is observed: a curved ridge.",
    log: ([a, b]) => gaussian(b - a * a, -0.9, 0.3),
  },
  ring: {
    name: "ring",
    about: "Only the distance from the origin is observed.",
    log: ([a, b]) => gaussian(Math.hypot(a, b), 1.5, 0.12),
  },
  modes: {
    name: "two modes",
    about: "Two separate modes. Many ellipses pass through both of them.",
    log: ([a, b]) =>
      logSumExp(gaussian(a, 1.2, 0.28) + gaussian(b, 0.9, 0.28), gaussian(a, -1.2, 0.28) + gaussian(b, -0.9, 0.28)),
  },
  narrow: {
    name: "narrow: informative data",
    about: "Precise data. The slice is a small part of each ellipse, so an update takes many proposals (Section 2.5).",
    log: ([a, b]) => gaussian(a, 1.3, 0.07) + gaussian(b, -1.0, 0.07),
  },
  edged: {
    name: "hard edges",
    about: "Inequalities: the likelihood is 1 inside the triangle, 0 outside. The slice is the same for every level.",
    log: ([a, b]) => (a > -0.3 && b > -0.5 && a + b < 1.5 ? 0 : -Infinity),
  },
  flat: {
    name: "none: L = 1",
    about: "The posterior is the prior. The first proposal is always accepted.",
    log: () => 0,
  },
};

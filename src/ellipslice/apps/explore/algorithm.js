"use strict";

// The three methods. An update is a deterministic function of the state, its random numbers and the likelihood. It
// yields a list of events, which the plots draw without reference to the method. The number of an event is that of its
// step in Figure 2 of Murray, Adams & MacKay (2010):
//
//   1  nu          a draw from the prior determines the curve
//   2  logY        the slice level
//   3  theta, thetaMin, thetaMax     the first angle and the bracket
//   4  theta, point, value           a proposal and its log-likelihood
//   6  theta, state                  accepted: end of the update
//   8  theta, thetaMin, thetaMax     rejected: the bracket shrinks
//   9  theta                         the next angle
//   0  state       no point was found, or Neal's only proposal was rejected: the state is unchanged
//
// Every event from step 3 on contains the bracket and the angle.

const FULL_TURN = 2 * Math.PI;
const MAX_EVALUATIONS = 1000; // limit of a search; rounding ends it long before

/** A slice search along a curve. The curve defines the first bracket, its points and how the bracket shrinks. */
function* sliceUpdate(curve, state, noise, logLikelihood) {
  yield { step: 1, nu: noise.nu };
  const logY = state.value - noise.level;
  yield { step: 2, logY };
  let [theta, thetaMin, thetaMax] = curve.begin(noise.uniform(0), noise.uniform(1));
  yield { step: 3, theta, thetaMin, thetaMax };
  for (let evaluations = 1; evaluations <= MAX_EVALUATIONS; evaluations++) {
    const point = curve.at(theta);
    const value = logLikelihood(point);
    yield { step: 4, theta, thetaMin, thetaMax, point, value };
    if (value > logY - curve.logFactor(theta)) {
      // this comparison is false for NaN, so NaN is never accepted
      yield { step: 6, theta, thetaMin, thetaMax, state: { f: point, value } };
      return;
    }
    [thetaMin, thetaMax] = curve.shrink(theta, thetaMin, thetaMax);
    yield { step: 8, theta, thetaMin, thetaMax };
    theta = thetaMin + noise.uniform(evaluations + 1) * (thetaMax - thetaMin);
    yield { step: 9, theta, thetaMin, thetaMax };
  }
  yield { step: 0, theta: 0, thetaMin, thetaMax, state };
}

/** Figure 2. `bracket` is {width, shrinking}: 2 pi or narrower, and "cut" or "halve". */
function ellipticalUpdate(state, noise, logLikelihood, bracket) {
  return sliceUpdate(ellipse(state.f, noise.nu, bracket), state, noise, logLikelihood);
}

/**
 * Return the random numbers with which an elliptical update from the new state returns to the old one: equation (12)
 * and Figure 3(e). Ellipse, slice level, brackets and rejected points are the same; only the last proposal differs.
 */
function wayBack(state, noise, events, bracket) {
  const tried = events.filter((event) => event.step === 4);
  const [first, last] = [tried[0], tried.at(-1)];
  const [c, s] = [Math.cos(last.theta), Math.sin(last.theta)];
  return {
    nu: [noise.nu[0] * c - state.f[0] * s, noise.nu[1] * c - state.f[1] * s],
    level: last.value - (state.value - noise.level),
    uniform(k) {
      if (k === tried.length) return -last.thetaMin / (last.thetaMax - last.thetaMin); // the position of the old state
      if (k === 0) return (last.theta - first.thetaMin) / bracket.width;
      if (k === 1 && bracket.width === FULL_TURN) return (first.theta - last.theta) / FULL_TURN;
      return noise.uniform(k);
    },
  };
}

/** Section 3.1: slice sampling along f + w nu. The prior density varies along a line, so it is part of the slice. */
function lineUpdate(state, noise, logLikelihood, width, prior) {
  return sliceUpdate(line(state.f, noise.nu, width, prior), state, noise, logLikelihood);
}

/** Neal's method, equations (3) and (4): one point of the ellipse, at an angle set by epsilon, is accepted or not. */
function* nealUpdate(state, noise, logLikelihood, epsilon) {
  yield { step: 1, nu: noise.nu };
  const logY = state.value - noise.level;
  yield { step: 2, logY };
  const theta = Math.asin(epsilon);
  const keep = Math.sqrt(1 - epsilon ** 2);
  const point = [keep * state.f[0] + epsilon * noise.nu[0], keep * state.f[1] + epsilon * noise.nu[1]];
  const value = logLikelihood(point);
  yield { step: 4, theta, point, value };
  if (value > logY) yield { step: 6, theta, state: { f: point, value } };
  else yield { step: 0, theta: 0, state };
}

function ellipse(f, nu, { width, shrinking }) {
  return {
    begin(place, u) {
      if (width === FULL_TURN) {
        // the first proposal is both ends of the bracket
        const theta = width * u;
        return [theta, theta - width, theta];
      }
      const thetaMin = -width * place; // Section 2.4: the ends of a narrower bracket are not tried
      return [thetaMin + width * u, thetaMin, thetaMin + width];
    },
    at(theta) {
      const [c, s] = [Math.cos(theta), Math.sin(theta)];
      return [f[0] * c + nu[0] * s, f[1] * c + nu[1] * s];
    },
    logFactor: () => 0, // the joint prior density of f and nu is constant along an ellipse
    shrink: shrinking === "halve" ? halve : cut,
  };
}

function line(f, nu, width, prior) {
  const precise = prior.solve(nu);
  const slope = f[0] * precise[0] + f[1] * precise[1];
  const square = nu[0] * precise[0] + nu[1] * precise[1];
  return {
    begin(place, u) {
      const least = -width * place;
      return [least + width * u, least, least + width];
    },
    at: (w) => [f[0] + w * nu[0], f[1] + w * nu[1]],
    logFactor: (w) => -w * (slope + 0.5 * w * square), // log N(f + w nu) - log N(f)
    shrink: cut,
  };
}

/** Shrink the bracket to the rejected angle, so that it still contains the current state, which is at 0. */
function cut(theta, thetaMin, thetaMax) {
  return theta < 0 ? [theta, thetaMax] : [thetaMin, theta];
}

/** Return the half of the bracket that contains the current state, for any rejected angle. */
function halve(theta, thetaMin, thetaMax) {
  const middle = (thetaMin + thetaMax) / 2;
  return middle < 0 ? [middle, thetaMax] : [thetaMin, middle];
}

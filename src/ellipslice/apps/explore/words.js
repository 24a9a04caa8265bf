"use strict";

// Texts: the lines of Figure 2, and a sentence for each event.

const number = (x) =>
  Number.isFinite(x)
    ? x.toFixed(2).replace("-0.00", "0.00").replace("-", "−")
    : x > 0
      ? "∞"
      : x < 0
        ? "−∞"
        : "not a number";
const inPi = (x) => `${number(x / Math.PI)} π`;

/** Return the lines of Figure 2 for this bracket, as HTML. */
function figure2({ width, shrinking }) {
  const whole = width === FULL_TURN;
  return [
    "choose an ellipse: ν ~ N(0, Σ)",
    "slice level: u ~ Uniform[0, 1], log y ← log L(f) + log u",
    whole
      ? "θ ~ Uniform[0, 2π], bracket [θ_min, θ_max] ← [θ − 2π, θ]"
      : `bracket of width ${inPi(width)} at a random position around 0; θ ~ Uniform[θ_min, θ_max]`,
    "f′ ← f cos θ + ν sin θ",
    "*if* log L(f′) > log y *then*",
    "\taccept: *return* f′",
    "*else* shrink the bracket:",
    shrinking === "halve" ? "\tkeep the half that contains 0" : "\t*if* θ < 0 *then* θ_min ← θ *else* θ_max ← θ",
    "\tθ ~ Uniform[θ_min, θ_max]",
    "\t*go to* 4",
  ].map(letters);
}

/** Return a line as HTML: *bold*, single letters in italics, _min and _max as subscripts, a tab as indentation. */
function letters(text) {
  return text
    .replace("<", "&lt;")
    .replace(/\*(.*?)\*/g, "<b>$1</b>")
    .replace(/(?<![\p{L}<\/&])([fνθuyL])(?!\p{L}|>)/gu, "<i>$1</i>")
    .replace(/_(min|max)/g, "<sub>$1</sub>")
    .replace(/^\t(.*)/, "<span>$1</span>");
}

/** Lines of Figure 2 that belong to an event, by its step. */
const LINES = { 1: [1], 2: [2], 3: [3], 4: [4, 5], 6: [5, 6], 8: [7, 8], 9: [9, 10], 0: [] };

/** Return a sentence about the current event of the elliptical update. */
function sentence(chain) {
  const { event, origin, noise, problem } = chain;
  if (!event) return "Press Step to run one update line by line. You can drag the state × and, once it is drawn, ν.";
  if (chain.forward) {
    return (
      "The reverse move, Figure 3(e): f′ with ν′ = ν cos θ − f sin θ spans the same ellipse. At the same level, the " +
      "same brackets and rejected points lead back to f. Both moves are equally probable. So the update is " +
      "reversible and leaves the posterior invariant."
    );
  }
  const logY = origin.value - noise.level;
  const tried = chain.events.slice(0, chain.shown + 1).filter((one) => one.step === 4).length;
  const theta = `θ = ${inPi(event.theta)}`;
  const { width, shrinking } = problem.bracket;
  switch (event.step) {
    case 1:
      return (
        `Step 1: ν is a draw from the prior, here (${noise.nu.map(number).join(", ")}). All proposals lie on ` +
        "the ellipse through f and ν around the origin."
      );
    case 2:
      if (origin.value === -Infinity)
        return "Step 2: the likelihood is zero at f, so no chain can start here. Drag f to another point.";
      return (
        `Step 2: the slice level log y = ${number(origin.value)} − ${number(noise.level)} = ${number(logY)}. ` +
        "The slice, shown by thick arcs, is where the log-likelihood is above it."
      );
    case 3:
      return width === FULL_TURN
        ? `Step 3: a first angle, ${theta}. It is also both ends of the bracket, the full ellipse, which contains f.`
        : `Step 3: a bracket of width ${inPi(width)} at a random position around f, and a first angle, ${theta}.`;
    case 4:
      return (
        `Step 4: f′ at ${theta} has log L = ${number(event.value)}. That is ` +
        (event.value > logY
          ? `above ${number(logY)}, so f′ is on the slice.`
          : `not above ${number(logY)}, so f′ is not on the slice.`)
      );
    case 6:
      return (
        `Step 6: accepted after ${tried === 1 ? "1 proposal" : `${tried} proposals`}. f′ is the new state. ` +
        "No parameter was tuned."
      );
    case 8:
      return (
        `Step 8: rejected. The bracket is ${shrinking === "halve" ? "halved" : "shrunk to the rejected angle"}, so ` +
        `that it still contains f: now [${inPi(event.thetaMin)}, ${inPi(event.thetaMax)}].`
      );
    case 9:
      return `Step 9: the next angle, uniform in the bracket: ${theta}.`;
    default:
      return `No point of the slice was found in ${MAX_EVALUATIONS} proposals, so the state is unchanged.`;
  }
}

/** Return a short caption of the current event, for the plot of a method. */
function caption(chain) {
  const { event, events, shown, method, problem } = chain;
  if (!event) return "";
  if (chain.forward) return "the reverse move";
  const tried = events.slice(0, shown + 1).filter((one) => one.step === 4).length;
  const along = method === "line" ? "w" : "θ";
  const place = (theta) => (method === "line" ? number(theta) : inPi(theta));
  switch (event.step) {
    case 1:
      return method === "line" ? "the line through f along ν" : "the ellipse through f and ν";
    case 2:
      return {
        elliptical: "slice: L above the slice level",
        neal: "accepts if L is above the level",
        line: "slice: L × prior above the slice level",
      }[method];
    case 3:
      return `first ${along} = ${place(event.theta)}`;
    case 4:
      return method === "neal"
        ? `proposal at ε = ${number(problem.epsilon)}`
        : `proposal at ${along} = ${place(event.theta)}`;
    case 6:
      return `accepted (${tried} tried)`;
    case 8:
      return "rejected: the bracket shrinks";
    case 9:
      return `next ${along} = ${place(event.theta)}`;
    default:
      return method === "neal" ? "rejected: state unchanged" : "no point found: state unchanged";
  }
}

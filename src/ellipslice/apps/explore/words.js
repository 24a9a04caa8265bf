"use strict";

// What is happening, in words: Figure 2's lines, and a sentence for each event.

const number = (x) =>
  Number.isFinite(x)
    ? x.toFixed(2).replace("-0.00", "0.00").replace("-", "−")
    : x > 0
      ? "∞"
      : x < 0
        ? "−∞"
        : "not a number";
const inPi = (x) => `${number(x / Math.PI)} π`;

/** Figure 2, as it reads with this bracket. Letters are marked up by `letters`. */
function figure2({ width, shrinking }) {
  const whole = width === FULL_TURN;
  return [
    "choose an ellipse: ν ~ N(0, Σ)",
    "level: u ~ Uniform[0, 1], log y ← log L(f) + log u",
    whole
      ? "θ ~ Uniform[0, 2π], bracket [θ_min, θ_max] ← [θ − 2π, θ]"
      : `a bracket ${inPi(width)} wide, anywhere around 0; θ ~ Uniform[θ_min, θ_max]`,
    "f′ ← f cos θ + ν sin θ",
    "*if* log L(f′) > log y *then*",
    "\taccept: *return* f′",
    "*else* shrink the bracket:",
    shrinking === "halve" ? "\tkeep the half that holds 0" : "\t*if* θ < 0 *then* θ_min ← θ *else* θ_max ← θ",
    "\tθ ~ Uniform[θ_min, θ_max]",
    "\t*go to* 4",
  ].map(letters);
}

/** HTML of a line: *bold*, single letters in italics, _min and _max below the line, a tab as an indentation. */
function letters(text) {
  return text
    .replace("<", "&lt;")
    .replace(/\*(.*?)\*/g, "<b>$1</b>")
    .replace(/(?<![\p{L}<\/&])([fνθuyL])(?!\p{L}|>)/gu, "<i>$1</i>")
    .replace(/_(min|max)/g, "<sub>$1</sub>")
    .replace(/^\t(.*)/, "<span>$1</span>");
}

/** Which lines of Figure 2 an event is about. */
const LINES = { 1: [1], 2: [2], 3: [3], 4: [4, 5], 6: [5, 6], 8: [7, 8], 9: [9, 10], 0: [] };

/** A sentence about where the elliptical update is. */
function sentence(chain) {
  const { event, origin, noise, problem } = chain;
  if (!event) return "Press Step to go through one update, line by line. Drag the state ×, or ν when it is there.";
  if (chain.forward) {
    return (
      "The way back, Figure 3(e): f′ with ν′ = ν cos θ − f sin θ spans the same ellipse. At the same level, the same " +
      "brackets and rejected points lead back to f. Both ways are equally probable: the update is reversible, and so " +
      "leaves the posterior as it is."
    );
  }
  const logY = origin.value - noise.level;
  const tried = chain.events.slice(0, chain.shown + 1).filter((one) => one.step === 4).length;
  const theta = `θ = ${inPi(event.theta)}`;
  const { width, shrinking } = problem.bracket;
  switch (event.step) {
    case 1:
      return (
        `Step 1: ν is a draw of the prior, here (${noise.nu.map(number).join(", ")}). The ellipse through f and ν, ` +
        "around the origin, is all the update will look at."
      );
    case 2:
      if (origin.value === -Infinity)
        return "Step 2: the likelihood is zero at f, where no chain should start. Drag f to where it is not.";
      return (
        `Step 2: the level log y = ${number(origin.value)} − ${number(noise.level)} = ${number(logY)}. ` +
        "Where the likelihood is above it is the slice: the thick arcs."
      );
    case 3:
      return width === FULL_TURN
        ? `Step 3: a first angle, ${theta}. It is also both ends of the bracket: once round the ellipse, with f inside.`
        : `Step 3: a bracket ${inPi(width)} wide is put at random around f, which is at 0. A first angle in it: ${theta}.`;
    case 4:
      return (
        `Step 4: f′ at ${theta} has log L = ${number(event.value)}. That is ` +
        (event.value > logY ? `above ${number(logY)}: on the slice.` : `not above ${number(logY)}: off the slice.`)
      );
    case 6:
      return (
        `Step 6: accepted after ${tried === 1 ? "1 proposal" : `${tried} proposals`}. f′ is the new state; ` +
        "nothing was tuned, and the state has moved."
      );
    case 8:
      return (
        `Step 8: rejected. The bracket is ${shrinking === "halve" ? "halved" : "cut at the rejected angle"}, so that it ` +
        `still holds f: now [${inPi(event.thetaMin)}, ${inPi(event.thetaMax)}].`
      );
    case 9:
      return `Step 9: the next angle, uniform in what is left: ${theta}.`;
    default:
      return `No point of the slice was found in ${MAX_EVALUATIONS} proposals: the state stays.`;
  }
}

/** A few words under a rival's picture, and under ours beside them. */
function caption(chain) {
  const { event, events, shown, method, problem } = chain;
  if (!event) return "";
  if (chain.forward) return "the way back";
  const tried = events.slice(0, shown + 1).filter((one) => one.step === 4).length;
  const along = method === "line" ? "w" : "θ";
  const place = (theta) => (method === "line" ? number(theta) : inPi(theta));
  switch (event.step) {
    case 1:
      return method === "line" ? "the line through f along ν" : "the ellipse through f and ν";
    case 2:
      return {
        elliptical: "slice: L above the level",
        neal: "accepts above the level",
        line: "slice: L × prior above the level",
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
      return "rejected: the bracket is cut";
    case 9:
      return `next ${along} = ${place(event.theta)}`;
    default:
      return method === "neal" ? "rejected: the state stays" : "given up: the state stays";
  }
}

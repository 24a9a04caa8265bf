"use strict";

// What is happening, in words: Figure 2's lines, and a sentence for each event.

const number = (x) => (Number.isFinite(x) ? x.toFixed(2).replace("-", "−") : x > 0 ? "∞" : x < 0 ? "−∞" : "not a number");
const inPi = (x) => `${number(x / Math.PI)} π`;

/** Figure 2, as it reads with this bracket. */
function figure2({ width, shrinking }) {
  const whole = width === FULL_TURN;
  return [
    "choose an ellipse: <i>ν</i> ~ N(0, Σ)",
    "level: <i>u</i> ~ Uniform[0, 1], log <i>y</i> ← log <i>L</i>(<i>f</i>) + log <i>u</i>",
    whole
      ? "<i>θ</i> ~ Uniform[0, 2π], bracket [<i>θ</i><sub>min</sub>, <i>θ</i><sub>max</sub>] ← [<i>θ</i> − 2π, <i>θ</i>]"
      : `a bracket ${inPi(width)} wide, anywhere around 0; <i>θ</i> ~ Uniform[<i>θ</i><sub>min</sub>, <i>θ</i><sub>max</sub>]`,
    "<i>f</i>′ ← <i>f</i> cos <i>θ</i> + <i>ν</i> sin <i>θ</i>",
    "<b>if</b> log <i>L</i>(<i>f</i>′) &gt; log <i>y</i> <b>then</b>",
    "<span>accept: <b>return</b> <i>f</i>′</span>",
    "<b>else</b> shrink the bracket:",
    shrinking === "halve"
      ? "<span>keep the half that holds 0</span>"
      : "<span><b>if</b> <i>θ</i> &lt; 0 <b>then</b> <i>θ</i><sub>min</sub> ← <i>θ</i> <b>else</b> <i>θ</i><sub>max</sub> ← <i>θ</i></span>",
    "<span><i>θ</i> ~ Uniform[<i>θ</i><sub>min</sub>, <i>θ</i><sub>max</sub>]</span>",
    "<span><b>go to</b> 4</span>",
  ];
}

/** Which lines of Figure 2 an event is about. */
const LINES = { 1: [1], 2: [2], 3: [3], 4: [4, 5], 6: [5, 6], 8: [7, 8], 9: [9, 10], 0: [] };

/** A sentence about where the elliptical update is. */
function sentence(chain) {
  const { event, origin, noise, problem } = chain;
  if (!event) return "Press Step to go through one update, line by line. Drag the state ×, or ν when it is there.";
  const logY = origin.value - noise.level;
  const tried = chain.events.slice(0, chain.shown + 1).filter((one) => one.step === 4).length;
  switch (event.step) {
    case 1:
      return `Step 1: ν is a draw of the prior, here (${number(noise.nu[0])}, ${number(noise.nu[1])}). The ellipse through f and ν, around the origin, is all the update will look at.`;
    case 2:
      if (origin.value === -Infinity) return "Step 2: the likelihood is zero at f, where no chain should start. Drag f to where it is not.";
      return `Step 2: the level log y = ${number(origin.value)} − ${number(noise.level)} = ${number(logY)}. Where the likelihood is above it is the slice: the thick arcs.`;
    case 3:
      return problem.bracket.width === FULL_TURN
        ? `Step 3: a first angle, θ = ${inPi(event.theta)}. It is also both ends of the bracket: once round the ellipse, with f at 0 inside.`
        : `Step 3: a bracket ${inPi(problem.bracket.width)} wide is put at random around f, which is at 0; the first angle in it is θ = ${inPi(event.theta)}.`;
    case 4:
      return `Step 4: f′ at θ = ${inPi(event.theta)} has log L = ${number(event.value)}. ` +
        (event.value > logY ? `That is above ${number(logY)}: on the slice.` : `That is not above ${number(logY)}: off the slice.`);
    case 6:
      return `Step 6: accepted after ${tried === 1 ? "1 proposal" : `${tried} proposals`}. f′ is the new state; nothing was tuned, and the state has moved.`;
    case 8:
      return `Step 8: rejected. The bracket is ${problem.bracket.shrinking === "halve" ? "halved" : "cut at the rejected angle"}, on the side that does not hold f: now [${inPi(event.thetaMin)}, ${inPi(event.thetaMax)}].`;
    case 9:
      return `Step 9: the next angle, uniform in what is left: θ = ${inPi(event.theta)}.`;
    default:
      return `No point of the slice was found in ${MAX_EVALUATIONS} proposals: the state stays.`;
  }
}

/** A few words under a rival's picture, and under ours beside them. */
function caption(chain) {
  const { event, events, shown, method, problem } = chain;
  if (!event) return "";
  const tried = events.slice(0, shown + 1).filter((one) => one.step === 4).length;
  const proposals = tried === 1 ? "1 proposal" : `${tried} proposals`;
  const along = method === "line" ? "w" : "θ";
  const place = (theta) => (method === "line" ? number(theta) : inPi(theta));
  switch (event.step) {
    case 1:
      return method === "line" ? "the line through f along ν" : "the ellipse through f and ν";
    case 2:
      return method === "neal" ? "accept if log L(f′) is above the level" : method === "line" ? "slice: where L times the prior is above the level" : "slice: where L is above the level";
    case 3:
      return `first ${along} = ${place(event.theta)}`;
    case 4:
      return method === "neal" ? `its one proposal, with ε = ${number(problem.epsilon)}` : `proposal at ${along} = ${place(event.theta)}`;
    case 6:
      return `accepted after ${proposals}`;
    case 8:
      return "rejected: the bracket is cut";
    case 9:
      return `next ${along} = ${place(event.theta)}`;
    default:
      return method === "neal" ? "rejected: the state stays" : "given up: the state stays";
  }
}

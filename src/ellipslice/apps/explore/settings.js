"use strict";

// The settings, in the form and in the address.

const find = (id) => document.getElementById(id);
const form = find("settings");
const field = (name) => form.elements.namedItem(name);

const SPEEDS = [
  // steps per second, then updates per second
  { steps: 0.5, words: "1 step in 2 seconds" },
  { steps: 1, words: "1 step per second" },
  { steps: 2, words: "2 steps per second" },
  { steps: 5, words: "5 steps per second" },
  { steps: 12, words: "12 steps per second" },
  { updates: 5, words: "5 updates per second" },
  { updates: 20, words: "20 updates per second" },
  { updates: 100, words: "100 updates per second" },
  { updates: 500, words: "500 updates per second" },
  { updates: 2500, words: "2,500 updates per second" },
];
const SHAPE = ["sd1", "sd2", "correlation"]; // settings that a choice of prior sets
const OUTPUTS = {
  // texts of slider values
  correlation: (x) => number(x),
  sd1: (x) => number(x),
  sd2: (x) => number(x),
  bracket: (x) => `${x} π`,
  epsilon: (x) => number(x),
  width: (x) => x.toFixed(1),
  speed: (x) => SPEEDS[x].words,
};

function fillForm() {
  for (const [value, { name }] of Object.entries(LIKELIHOODS)) field("likelihood").add(new Option(name, value));
  for (const [value, { name }] of Object.entries(PRIORS)) field("prior").add(new Option(name, value));
  field("prior").add(new Option("custom (below)", "own"));
  usePrior("round");
}

function usePrior(name) {
  if (PRIORS[name]) for (const setting of SHAPE) field(setting).value = PRIORS[name][setting];
}

/** Read settings from the address, after ? or #. Invalid values are ignored. */
function readAddress() {
  const given = new URLSearchParams(location.search);
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) given.set(name, value);
  if (PRIORS[given.get("prior")]) usePrior(given.get("prior"));
  for (const [name, value] of given) {
    const input = field(name);
    if (!input) continue;
    if (input.type === "checkbox") input.checked = value === "1" || value === "true";
    else if (input.tagName === "SELECT")
      input.value = [...input.options].some((option) => option.value === value) ? value : input.value;
    else if (value !== "" && Number.isFinite(Number(value))) input.value = value;
  }
  field("seed").value = wholeSeed();
  const preset = PRIORS[field("prior").value];
  if (preset && !SHAPE.every((name) => Number(field(name).value) === preset[name])) field("prior").value = "own";
  return given;
}

function writeAddress() {
  const settings = new URLSearchParams();
  for (const input of form.elements) {
    if (!input.name) continue;
    const preset = field("prior").value !== "own" && SHAPE.includes(input.name);
    if (input.type === "checkbox" ? input.checked : !preset)
      settings.set(input.name, input.type === "checkbox" ? "1" : input.value);
  }
  try {
    history.replaceState(null, "", `#${settings}`);
  } catch {
    /* an embedded page may not change the address */
  }
}

function wholeSeed() {
  const seed = Math.floor(Number(field("seed").value));
  return seed >= 0 && seed < 2 ** 32 ? seed : 1;
}

/** Return the problem that the form describes. */
function readProblem() {
  const value = (name) => Number(field(name).value);
  return {
    prior: gaussianPrior(value("sd1"), value("sd2"), value("correlation")),
    logLikelihood: LIKELIHOODS[field("likelihood").value].log,
    seed: wholeSeed(),
    bracket: {
      width: value("bracket") >= 2 ? FULL_TURN : value("bracket") * Math.PI,
      shrinking: field("shrinking").value,
    },
    epsilon: value("epsilon"),
    width: value("width"),
  };
}

/** Show the value of every slider as text, also for screen readers. */
function showValues() {
  for (const [name, format] of Object.entries(OUTPUTS)) {
    const words = format(Number(field(name).value));
    field(name).closest("label").querySelector(".value").textContent = words;
    field(name).setAttribute("aria-valuetext", words);
  }
}

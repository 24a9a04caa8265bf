"use strict";

// The page itself: settings, buttons, keys and the pointer, and the clock that turns events into pictures.

const SPEEDS = [ // steps a second, then whole updates a second
  { steps: 0.5, words: "a step every 2 s" },
  { steps: 1, words: "1 step a second" },
  { steps: 2, words: "2 steps a second" },
  { steps: 5, words: "5 steps a second" },
  { steps: 12, words: "12 steps a second" },
  { updates: 5, words: "5 updates a second" },
  { updates: 20, words: "20 updates a second" },
  { updates: 100, words: "100 updates a second" },
  { updates: 500, words: "500 updates a second" },
  { updates: 2500, words: "2,500 updates a second" },
];
const OUTPUTS = { // how a slider's value reads
  correlation: (x) => number(x),
  sd1: (x) => number(x),
  sd2: (x) => number(x),
  bracket: (x) => `${x} π`,
  epsilon: (x) => number(x),
  width: (x) => x.toFixed(1),
};
const BY_ITSELF = ["speed", "follow"]; // settings that do not begin a new run

const find = (id) => document.getElementById(id);
const form = find("settings");
const field = (name) => form.elements.namedItem(name);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const dark = matchMedia("(prefers-color-scheme: dark)");

let run, truth, colours, pictures;
let playing = false;
let detail = true; // whether updates are drawn line by line
let changedAt = -Infinity; // when the newest event was reached
let stale = true; // the picture is to be drawn
let resultsStale = true; // so are the charts below
let owed = 0; // events that time has brought but that have not happened yet
let [clock, drawnAt, resultsAt] = [0, 0, 0];

// --- settings: the form holds them, and the address repeats them -----------------------------------------------------

function fillForm() {
  for (const [value, { name }] of Object.entries(LIKELIHOODS)) field("likelihood").add(new Option(name, value));
  for (const [value, { name }] of Object.entries(PRIORS)) field("prior").add(new Option(name, value));
  field("prior").add(new Option("as set below", "own"));
  usePrior("round");
}

function usePrior(name) {
  for (const [setting, value] of Object.entries(PRIORS[name] ?? {})) if (setting !== "name") field(setting).value = value;
}

/** Settings from the address, after ? or #. What makes no sense is left as it was. */
function readAddress() {
  const given = new URLSearchParams(`${location.search.slice(1)}&${location.hash.slice(1)}`);
  if (PRIORS[given.get("prior")]) usePrior(given.get("prior"));
  for (const [name, value] of given) {
    const input = field(name);
    if (!input) continue;
    if (input.type === "checkbox") input.checked = value === "1" || value === "true";
    else if (input.tagName === "SELECT") input.value = [...input.options].some((option) => option.value === value) ? value : input.value;
    else if (value !== "" && Number.isFinite(Number(value))) input.value = value;
  }
  return given;
}

function writeAddress() {
  const settings = new URLSearchParams();
  for (const input of form.elements) {
    if (!input.name) continue;
    const preset = field("prior").value !== "own" && ["sd1", "sd2", "correlation"].includes(input.name);
    if (input.type === "checkbox" ? input.checked : !preset) settings.set(input.name, input.type === "checkbox" ? "1" : input.value);
  }
  try {
    history.replaceState(null, "", `#${settings}`);
  } catch { /* an embedded page may not: then the address stays */ }
}

function wholeSeed() {
  const seed = Math.floor(Number(field("seed").value));
  return seed >= 0 && seed < 2 ** 32 ? seed : 1;
}

/** A new run with the settings as they are. */
function begin() {
  const value = (name) => Number(field(name).value);
  const rivals = field("rivals").checked;
  const prior = gaussianPrior(value("sd1"), value("sd2"), value("correlation"));
  const logLikelihood = LIKELIHOODS[field("likelihood").value].log;
  const bracket = { width: value("bracket") >= 2 ? FULL_TURN : value("bracket") * Math.PI, shrinking: field("shrinking").value };
  const problem = { prior, logLikelihood, seed: wholeSeed(), bracket, epsilon: value("epsilon"), width: value("width") };
  run = new Run(problem, rivals ? Object.keys(METHODS) : ["elliptical"]);
  truth = makeTruth(prior, logLikelihood);
  document.body.classList.toggle("rivals-on", rivals);
  form.classList.toggle("with-rivals", rivals);
  find("about").textContent = LIKELIHOODS[field("likelihood").value].about;
  find("figure2").innerHTML = figure2(bracket).map((text) => `<li>${text}</li>`).join("");
  for (const [name, words] of Object.entries(OUTPUTS)) sayValue(name, words(value(name)));
  makePanels();
  detail = true;
  changed(false);
}

/** A slider's value in words, to read and to hear. */
function sayValue(name, words) {
  field(name).closest("label").querySelector(".value").textContent = words;
  field(name).setAttribute("aria-valuetext", words);
}

function makePanels() {
  const wanted = run.chains.map((chain) => chain.method).join();
  if (find("panels").dataset.methods !== wanted) {
    find("panels").dataset.methods = wanted;
    find("panels").innerHTML = run.chains
      .map(({ method }) => `<figure class="panel"><figcaption><b style="color: var(--${method})">${METHODS[method].name}</b><span></span></figcaption>
        <canvas class="plane" tabindex="0" role="application" aria-label="${METHODS[method].name}: the plane of f. Arrow keys move the state."></canvas>
        <canvas class="unrolled" role="img" aria-label="the likelihood along the curve"></canvas></figure>`)
      .join("");
    pictures = [...document.querySelectorAll(".plane")].map((canvas) => new PlanePicture(canvas));
    pictures.forEach(listenToPointer);
  }
}

function useTheme(name) {
  document.documentElement.dataset.theme = name;
  find("theme").textContent = name === "dark" ? "Light" : "Dark";
  colours = readColours();
  stale = true;
  resultsStale = true;
}

// --- what a person does -----------------------------------------------------------------------------------------------

/** Something happened: draw it, gliding there unless it happens under the user's hand. */
function changed(glides = true) {
  changedAt = glides ? performance.now() : -Infinity;
  stale = true;
  resultsStale = true;
}

function play(wanted) {
  playing = wanted && !run.full;
  owed = 0;
  find("play").textContent = playing ? "Pause" : "Play";
  find("play").setAttribute("aria-pressed", playing);
  find("sentence").setAttribute("aria-live", playing ? "off" : "polite"); // a voice could not keep up
  stale = true;
  resultsStale = true;
}

function advance(how) {
  play(false);
  detail = true;
  if (!run.full) run[how]();
  changed();
}

function reset() {
  play(false);
  begin();
}

function anotherSeed() {
  field("seed").value = (wholeSeed() + 1) % 2 ** 32;
  settingChanged("seed");
}

function settingChanged(name) {
  if (name === "prior") usePrior(field("prior").value);
  if (["sd1", "sd2", "correlation"].includes(name)) field("prior").value = "own";
  if (BY_ITSELF.includes(name)) {
    detail = true;
    owed = 0;
    changed(false);
  } else begin();
  sayValue("speed", SPEEDS[field("speed").value].words);
  writeAddress();
}

function changeSpeed(by) {
  field("speed").value = Number(field("speed").value) + by;
  settingChanged("speed");
}

const ACTIONS = {
  play: () => play(!playing),
  step: () => advance("step"),
  proposal: () => advance("proposal"),
  finish: () => advance("finish"),
  reset,
  another: anotherSeed,
  theme: () => useTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
};
const KEYS = {
  " ": ACTIONS.play,
  s: ACTIONS.step,
  arrowright: ACTIONS.step,
  p: ACTIONS.proposal,
  u: ACTIONS.finish,
  r: reset,
  n: anotherSeed,
  d: ACTIONS.theme,
  v: () => field("rivals").click(),
  "+": () => changeSpeed(1),
  "=": () => changeSpeed(1),
  "-": () => changeSpeed(-1),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { target, key } = event;
  if (target.classList.contains("plane") && key.startsWith("Arrow")) return moveByKey(event);
  if (target.matches("input:not([type=checkbox]), select") && (key.startsWith("Arrow") || target.type !== "range" || key === " ")) return;
  if (key === " " && target.matches("button, summary, input")) return; // it presses what is in focus
  const action = KEYS[key.toLowerCase()];
  if (!action) return;
  event.preventDefault();
  action();
}

function moveByKey(event) {
  const distance = event.shiftKey ? 0.25 : 0.05;
  const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
  const chain = run.chains[0];
  const from = run.underway ? chain.origin.f : chain.state.f;
  event.preventDefault();
  move(run.underway ? "origin" : "state", [from[0] + dx * distance, from[1] + dy * distance], chain);
}

/** Put what is held somewhere else: the start of the update shown, its nu, or the state it led to. */
function move(held, f, chain) {
  if (playing) play(false);
  detail = true;
  if (held === "nu") {
    const nu = chain.method === "line" ? [f[0] - chain.origin.f[0], f[1] - chain.origin.f[1]] : f;
    run.replay({ nu });
  } else if (held === "origin") run.replay({ f });
  else run.restart(f);
  changed(false);
}

function listenToPointer(picture) {
  const { canvas } = picture;
  let held = null;
  const at = ({ clientX, clientY }) => {
    const box = canvas.getBoundingClientRect();
    return [clientX - box.left, clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    held = picture.markAt(...at(event), event.pointerType === "mouse" ? 16 : 28);
    if (held) canvas.setPointerCapture(event.pointerId);
    canvas.classList.toggle("held", Boolean(held));
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      move(held, picture.view.point(...at(event)), picture.chain);
    } else canvas.classList.toggle("on-mark", Boolean(picture.markAt(...at(event), 16)));
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, () => {
      held = null;
      canvas.classList.remove("held");
    });
  }
  // A finger on a mark drags it; elsewhere it scrolls the page.
  const onTouch = (event) => picture.markAt(...at(event.touches[0]), 28) && event.preventDefault();
  canvas.addEventListener("touchstart", onTouch, { passive: false });
}

// --- the clock --------------------------------------------------------------------------------------------------------

function tick(now) {
  const elapsed = Math.min(now - clock, 250);
  clock = now;
  if (playing) go(elapsed, now);
  const patient = calm.matches && playing && now - drawnAt < 250; // at most four pictures a second
  if (stale && !patient) draw(now);
  requestAnimationFrame(tick);
}

/** As much of the run as the time that has passed is worth. */
function go(elapsed, now) {
  const { steps, updates } = SPEEDS[field("speed").value];
  detail = Boolean(steps) || updates <= 5;
  owed += (elapsed / 1000) * (steps ?? updates);
  const until = performance.now() + 14;
  let moved = false;
  while (owed >= 1 && !run.full && performance.now() < until) {
    steps ? run.step() : run.finish();
    owed -= 1;
    moved = true;
  }
  owed = Math.min(owed, 1 + (updates ?? 0) / 10);
  if (moved) {
    changedAt = now;
    stale = resultsStale = true;
  }
  if (run.full) play(false);
}

/** How long a new event takes to appear, in milliseconds. */
function glide() {
  const { steps, updates } = SPEEDS[field("speed").value];
  return playing ? Math.min(420, 600 / (steps ?? updates)) : 420;
}

function draw(now) {
  const t = calm.matches ? 1 : Math.min(1, Math.max(0, (now - changedAt) / glide()));
  const progress = t * t * (3 - 2 * t);
  run.chains.forEach((chain, k) => {
    pictures[k].draw(chain, truth, colours, progress, detail);
    const panel = pictures[k].canvas.parentElement;
    drawUnrolled(panel.querySelector(".unrolled"), chain, colours, progress, detail);
    panel.querySelector("figcaption span").textContent = detail ? caption(chain) : "";
  });
  drawWords();
  if (resultsStale && (!playing || now - resultsAt > 200)) drawResults(now);
  drawnAt = now;
  stale = t < 1;
}

function drawWords() {
  const chain = run.chains[0];
  const words = run.full ? `${MOST_UPDATES.toLocaleString("en")} updates: that is enough for a page.` : detail ? sentence(chain) : "At this speed only the states are drawn. Slow down to see the ellipses.";
  if (find("sentence").textContent !== words) find("sentence").textContent = words;
  const lines = detail && chain.event ? LINES[chain.event.step] : [];
  [...find("figure2").children].forEach((item, k) => {
    lines.includes(k + 1) ? item.setAttribute("aria-current", "step") : item.removeAttribute("aria-current");
  });
}

function drawResults(now) {
  const name = field("follow").value;
  drawHistogram(find("histogram"), run.chains, truth, name, colours);
  drawAutocorrelation(find("autocorrelation"), run.chains, name, colours);
  drawTrace(find("trace"), run.chains, truth, name, colours);
  const exact = describe(truth, name).mean;
  const length = run.chains[0].trace.f1.length;
  find("so-far").textContent = length === 1 ? "After 1 update" : `After ${length.toLocaleString("en")} updates`;
  const rows = run.chains.map(({ method, trace, evaluations, moves }) => {
    const count = trace.f1.length;
    const size = count >= 20 ? effectiveSize(trace[name]) : NaN;
    const cells = [
      count.toLocaleString("en"),
      evaluations.toLocaleString("en"),
      count ? `${Math.round((100 * moves) / count)} %` : "–",
      count ? number(average(trace[name])) : "–",
      ...[[size, 0], [size / count, 3], [size / evaluations, 3]].map(([x, digits]) => (Number.isFinite(x) ? x.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits }) : "–")),
    ];
    return `<tr data-method="${method}"><th scope="row"><span class="swatch ${method}" style="border-color: var(--${method})"></span>${METHODS[method].name}</th>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`;
  });
  rows.push(`<tr><th scope="row"><span class="swatch" style="border-color: var(--ink)"></span>Exact posterior</th><td></td><td></td><td></td><td>${number(exact)}</td><td></td><td></td><td></td></tr>`);
  find("table").innerHTML = rows.join("");
  resultsAt = now;
  resultsStale = false;
}

// --- begin ------------------------------------------------------------------------------------------------------------

fillForm();
const given = readAddress();
useTheme(["light", "dark"].includes(given.get("theme")) ? given.get("theme") : dark.matches ? "dark" : "light");
dark.addEventListener("change", () => useTheme(dark.matches ? "dark" : "light"));
begin();
sayValue("speed", SPEEDS[field("speed").value].words);
for (let k = 0; k < Math.min(Number(given.get("updates")) || 0, MOST_UPDATES); k++) run.finish();
for (let k = 0; k < Math.min(Number(given.get("steps")) || 0, 10000); k++) run.step();
for (const [id, action] of Object.entries(ACTIONS)) find(id).addEventListener("click", action);
form.addEventListener("submit", (event) => event.preventDefault());
for (const input of form.elements) if (input.name) input.addEventListener("input", () => settingChanged(input.name));
document.addEventListener("keydown", onKey);
new ResizeObserver(() => changed(false)).observe(find("panels"));
if (given.get("play") === "1") play(true);
requestAnimationFrame(tick);

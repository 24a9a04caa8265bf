"use strict";

// The page: settings, buttons, keys, pointer, and the clock that advances the run.

const DISPLAY_SETTINGS = ["speed", "follow"]; // settings that do not start a new run

const calm = matchMedia("(prefers-reduced-motion: reduce)");
const dark = matchMedia("(prefers-color-scheme: dark)");

let run, truth, colours, pictures;
let playing = false;
let detail = true; // true if updates are drawn line by line
let changedAt = -Infinity; // time of the newest event
let stale = true; // the plots must be redrawn
let resultsStale = true; // the charts must be redrawn
let owed = 0; // events that are due but not yet computed
let [clock, drawnAt, resultsAt] = [0, 0, 0];

/** Start a new run with the current settings. */
function begin() {
  const rivals = field("rivals").checked;
  const problem = readProblem();
  run = new Run(problem, rivals ? Object.keys(METHODS) : ["elliptical"]);
  truth = makeTruth(problem.prior, problem.logLikelihood);
  document.body.classList.toggle("rivals-on", rivals);
  form.classList.toggle("with-rivals", rivals);
  find("about").textContent = LIKELIHOODS[field("likelihood").value].about;
  find("figure2").innerHTML = figure2(problem.bracket)
    .map((text) => `<li>${text}</li>`)
    .join("");
  showValues();
  makePanels();
  detail = true;
  changed(false);
}

function makePanels() {
  const wanted = run.chains.map((chain) => chain.method).join();
  if (find("panels").dataset.methods === wanted) return;
  find("panels").dataset.methods = wanted;
  find("panels").innerHTML = run.chains.map((chain) => panel(chain.method, METHODS[chain.method].name)).join("");
  pictures = [...document.querySelectorAll(".plane")].map((canvas) => new PlanePicture(canvas));
  pictures.forEach(listenToPointer);
}

function panel(method, name) {
  const label = `${name}: the plane of f. Arrow keys move the state.`;
  return `<figure class="panel">
    <figcaption>${swatch(method)}<b>${name}</b><span class="words"></span></figcaption>
    <canvas class="plane" tabindex="0" role="application" aria-label="${label}"></canvas>
    <canvas class="unrolled" role="img" aria-label="the likelihood along the curve"></canvas>
  </figure>`;
}

function useTheme(name) {
  document.documentElement.dataset.theme = name;
  find("theme").textContent = name === "dark" ? "Light" : "Dark";
  colours = readColours();
  stale = true;
  resultsStale = true;
}

// --- user actions -----------------------------------------------------------------------------------------------------

/** Redraw after a change; with an animation, unless the user is dragging. */
function changed(glides = true) {
  changedAt = glides ? performance.now() : -Infinity;
  stale = true;
  resultsStale = true;
}

function play(wanted) {
  playing = wanted && !run.full;
  detail = true;
  owed = 0;
  find("play").textContent = playing ? "Pause" : "Play";
  find("play").setAttribute("aria-pressed", playing);
  find("sentence").setAttribute("aria-live", playing ? "off" : "polite"); // too fast for a screen reader
  stale = true;
  resultsStale = true;
}

function advance(how) {
  play(false);
  if (!run.full) run[how]();
  changed();
}

/** Switch between the last update and its reverse move. */
function turnRound() {
  if (!run.canTurn) return;
  play(false);
  run.chains[0].turnRound();
  changed(false);
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
  if (SHAPE.includes(name)) field("prior").value = "own";
  if (DISPLAY_SETTINGS.includes(name)) {
    detail = true;
    owed = 0;
    changed(false);
  } else begin();
  showValues();
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
  back: turnRound,
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
  b: turnRound,
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
  if (target.matches("input[type=number], select")) return; // the focused control handles the key
  if (key.startsWith("Arrow") && target.type === "range") return;
  if (key === " " && target.matches("button, summary, input")) return;
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

/** Move the dragged mark: the initial state of the current update, its nu, or the state after it. */
function move(held, f, chain) {
  if (playing) play(false);
  if (run.chains[0].forward) turnRound(); // only the forward move can be changed
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
    if (held) move(held, picture.view.point(...at(event)), picture.chain);
    else canvas.classList.toggle("on-mark", Boolean(picture.markAt(...at(event), 16)));
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, () => {
      held = null;
      canvas.classList.remove("held");
    });
  }
  // A touch on a mark drags it; elsewhere it scrolls the page.
  const onTouch = (event) => picture.markAt(...at(event.touches[0]), 28) && event.preventDefault();
  canvas.addEventListener("touchstart", onTouch, { passive: false });
}

// --- the clock --------------------------------------------------------------------------------------------------------

function tick(now) {
  const elapsed = Math.min(now - clock, 250);
  clock = now;
  if (playing) go(elapsed, now);
  const patient = calm.matches && playing && now - drawnAt < 250; // at most four redraws per second
  if (stale && !patient) draw(now);
  requestAnimationFrame(tick);
}

/** Advance the run according to the elapsed time. */
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

/** Return the duration of the animation of a new event, in milliseconds. */
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
    panel.querySelector(".words").textContent = detail ? caption(chain) : "";
  });
  drawWords();
  if (resultsStale && (!playing || now - resultsAt > 200)) {
    drawResults(run.chains, truth, field("follow").value, colours);
    resultsAt = now;
    resultsStale = false;
  }
  drawnAt = now;
  stale = t < 1;
}

function drawWords() {
  const chain = run.chains[0];
  let words = detail ? sentence(chain) : "At this speed only states are drawn. Reduce the speed to see the ellipses.";
  if (run.full) words = `The run ends after ${MAX_UPDATES.toLocaleString("en")} updates, to limit the memory.`;
  if (find("sentence").textContent !== words) find("sentence").textContent = words;
  find("back").disabled = playing || !detail || !run.canTurn;
  find("back").setAttribute("aria-pressed", Boolean(chain.forward));
  const lines = detail && chain.event ? LINES[chain.event.step] : [];
  [...find("figure2").children].forEach((item, k) => {
    lines.includes(k + 1) ? item.setAttribute("aria-current", "step") : item.removeAttribute("aria-current");
  });
}

// --- begin ------------------------------------------------------------------------------------------------------------

fillForm();
const given = readAddress();
useTheme(["light", "dark"].includes(given.get("theme")) ? given.get("theme") : dark.matches ? "dark" : "light");
dark.addEventListener("change", () => useTheme(dark.matches ? "dark" : "light"));
begin();
for (let k = 0; k < Math.min(Number(given.get("updates")) || 0, MAX_UPDATES); k++) run.finish();
for (let k = 0; k < Math.min(Number(given.get("steps")) || 0, 10000); k++) run.step();
for (const [id, action] of Object.entries(ACTIONS)) find(id).addEventListener("click", action);
form.addEventListener("submit", (event) => event.preventDefault());
for (const input of form.elements) if (input.name) input.addEventListener("input", () => settingChanged(input.name));
field("seed").addEventListener("change", () => (field("seed").value = wholeSeed()));
document.addEventListener("keydown", onKey);
new ResizeObserver(() => changed(false)).observe(find("panels"));
if (given.get("play") === "1") play(true);
requestAnimationFrame(tick);

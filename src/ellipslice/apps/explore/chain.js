"use strict";

// A run: the chain of each method, its current update as a list of events, and the position in that list.

const METHODS = {
  elliptical: { name: "Elliptical slice" },
  neal: { name: "Neal’s method" },
  line: { name: "Line slice" },
};

const MAX_UPDATES = 100000; // end of a run, which limits the memory

class Chain {
  constructor(method, problem) {
    this.method = method;
    this.problem = problem;
    this.restart(problem.start);
  }

  /** Restart from `f` and delete the draws so far. */
  restart(f) {
    this.state = { f, value: this.problem.logLikelihood(f) };
    this.trace = { f1: [], f2: [], logL: [], evaluations: [] };
    this.moves = 0;
    this.events = [];
    this.shown = -1;
    this.forward = null;
  }

  /** Compute all events of the update with these random numbers. */
  begin(noise) {
    const { logLikelihood, prior, bracket, epsilon, width } = this.problem;
    this.noise = noise;
    this.shown = -1;
    this.forward = null;
    this.events = [
      ...{
        elliptical: () => ellipticalUpdate(this.state, noise, logLikelihood, bracket),
        neal: () => nealUpdate(this.state, noise, logLikelihood, epsilon),
        line: () => lineUpdate(this.state, noise, logLikelihood, width, prior),
      }[this.method](),
    ];
    this.origin = this.state;
  }

  get event() {
    return this.events[this.shown];
  }

  get finished() {
    return this.shown === this.events.length - 1;
  }

  finish() {
    this.shown = this.events.length - 1;
  }

  /** Switch between a finished elliptical update and its reverse move. Nothing else changes. */
  turnRound() {
    if (this.forward) {
      Object.assign(this, this.forward, { forward: null });
      return;
    }
    const { origin, noise, events, problem } = this;
    this.forward = { origin, noise, events, shown: this.shown };
    this.origin = this.state;
    this.noise = wayBack(origin, noise, events, problem.bracket);
    this.events = [...ellipticalUpdate(this.state, this.noise, problem.logLikelihood, problem.bracket)];
    this.finish();
  }

  /** Add the state of the last event to the trace. */
  record() {
    this.state = this.event.state;
    this.trace.evaluations.push(this.events.filter((event) => event.step === 4).length);
    this.moves += this.event.step === 6;
    this.trace.f1.push(this.state.f[0]);
    this.trace.f2.push(this.state.f[1]);
    this.trace.logL.push(this.state.value);
  }

  /** Return the curve that the current update searches. */
  curve() {
    const { bracket, width, prior } = this.problem;
    return this.method === "line"
      ? line(this.origin.f, this.noise.nu, width, prior)
      : ellipse(this.origin.f, this.noise.nu, bracket);
  }
}

class Run {
  /** `problem` is {prior, logLikelihood, seed, bracket, epsilon, width}. */
  constructor(problem, methods) {
    this.problem = { ...problem, start: startOf(problem.prior, problem.logLikelihood, problem.seed) };
    this.chains = methods.map((method) => new Chain(method, this.problem));
    this.update = 0; // number of complete updates, and index of the next random numbers
    this.underway = false;
  }

  get full() {
    return this.update >= MAX_UPDATES && !this.underway;
  }

  /** Advance every chain by one event. Chains that have finished the update wait for the others. */
  step() {
    this.#beginIfNeeded();
    for (const chain of this.chains) if (!chain.finished) chain.shown++;
    this.#recordIfFinished();
  }

  /** Advance until the next proposal is accepted or rejected. */
  proposal() {
    do this.step();
    while (this.underway && !this.chains.some((chain) => chain.event.step === 8));
  }

  /** Advance to the end of the current update or, if it is finished, of the next one. */
  finish() {
    this.#beginIfNeeded();
    for (const chain of this.chains) chain.finish();
    this.#recordIfFinished();
  }

  /** Restart every chain from `f`, with the next random numbers. */
  restart(f) {
    for (const chain of this.chains) chain.restart(f);
    this.underway = false;
  }

  /** Repeat the current update from another state or with another nu. Other random numbers and position stay. */
  replay({ f, nu }) {
    for (const chain of this.chains) {
      const { shown, finished, origin } = chain;
      const noise = nu ? { ...chain.noise, nu } : chain.noise;
      chain.restart(f ?? origin.f);
      chain.begin(noise);
      chain.shown = finished ? chain.events.length - 1 : Math.min(shown, chain.events.length - 1);
      if (!this.underway) chain.record();
    }
    if (this.underway) this.#recordIfFinished();
  }

  /** True if the elliptical update is complete, so that its reverse move can be shown. */
  get canTurn() {
    return !this.underway && this.chains[0].event?.step === 6;
  }

  #beginIfNeeded() {
    if (this.underway) return;
    this.underway = true;
    const noise = noiseOf(this.problem.prior, this.problem.seed, this.update);
    for (const chain of this.chains) chain.begin(noise);
  }

  #recordIfFinished() {
    if (!this.chains.every((chain) => chain.finished)) return;
    for (const chain of this.chains) chain.record();
    this.update++;
    this.underway = false;
  }
}

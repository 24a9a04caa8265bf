"use strict";

// A run: each method's chain, its current update as a list of events, and how far into that list one has looked.

const METHODS = {
  elliptical: { name: "Elliptical slice" },
  neal: { name: "Neal’s method" },
  line: { name: "Line slice" },
};

const MOST_UPDATES = 100000; // a run ends there: enough to see, and little memory

class Chain {
  constructor(method, problem) {
    this.method = method;
    this.problem = problem;
    this.restart(problem.start);
  }

  /** Begin anew from here: what was drawn before is forgotten. */
  restart(f) {
    this.state = { f, value: this.problem.logLikelihood(f) };
    this.trace = { f1: [], f2: [], logL: [], evaluations: [] };
    this.moves = 0;
    this.events = [];
    this.shown = -1;
    this.forward = null;
  }

  /** All that will happen in the update with this noise, worked out at once. */
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

  /** Look at the way back of a finished elliptical update, and then at the way forward again. Nothing else changes. */
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

  /** The last event has been reached, and its state is the chain's. */
  record() {
    this.state = this.event.state;
    this.trace.evaluations.push(this.events.filter((event) => event.step === 4).length);
    this.moves += this.event.step === 6;
    this.trace.f1.push(this.state.f[0]);
    this.trace.f2.push(this.state.f[1]);
    this.trace.logL.push(this.state.value);
  }

  /** The curve that the current update searches. */
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
    this.update = 0; // how many updates are complete, and so the number of the noise that is next
    this.underway = false;
  }

  get full() {
    return this.update >= MOST_UPDATES && !this.underway;
  }

  /** One more event in every chain; chains that have finished the update wait for the others. */
  step() {
    this.#beginIfNeeded();
    for (const chain of this.chains) if (!chain.finished) chain.shown++;
    this.#recordIfFinished();
  }

  /** On to where the next proposal is judged. */
  proposal() {
    do this.step();
    while (this.underway && !this.chains.some((chain) => chain.event.step === 8));
  }

  /** To the end of the current update or, if that is where we are, of the next. */
  finish() {
    this.#beginIfNeeded();
    for (const chain of this.chains) chain.finish();
    this.#recordIfFinished();
  }

  /** Every chain starts anew from here, with the noise that is next. */
  restart(f) {
    for (const chain of this.chains) chain.restart(f);
    this.underway = false;
  }

  /** The current update from another place, or with another nu. Its noise is the same, and as much of it is shown. */
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

  /** Whether there is a way back to look at: the elliptical update is complete. */
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

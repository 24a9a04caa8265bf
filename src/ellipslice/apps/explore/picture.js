"use strict";

// The plot of the plane of f: draws the events of a chain, as in Figure 3.

/** Prepare a canvas for the resolution of the screen and its size in the page. Its units are CSS pixels. */
function prepare(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.lineJoin = "round";
  return { context, width, height };
}

/** Return the colours of the style sheet, light or dark. */
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "grey", "faint", "paper", "proposal", "posterior", "elliptical", "neal", "line"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** Return the maps from the plane of f to pixels and back, with the same scale on both axes. */
function makeView(prior, width, height) {
  const reach = Math.max(2.75 * Math.max(...prior.sd), 2);
  const scale = Math.min(width, height) / (2 * reach);
  return {
    scale,
    rangeX: [-width / 2 / scale, width / 2 / scale],
    rangeY: [-height / 2 / scale, height / 2 / scale],
    pixel: ([a, b]) => [width / 2 + a * scale, height / 2 - b * scale],
    point: (x, y) => [(x - width / 2) / scale, (height / 2 - y) / scale],
  };
}

class PlanePicture {
  constructor(canvas) {
    this.canvas = canvas;
    this.backdrop = document.createElement("canvas");
    this.made = {};
  }

  /** Draw everything. `progress`, 0 to 1, is that of the animation; without `detail`, draw only the states. */
  draw(chain, truth, colours, progress, detail) {
    const { context, width, height } = prepare(this.canvas);
    if (!width || !height) return;
    this.view = makeView(chain.problem.prior, width, height);
    this.chain = chain;
    this.context = context;
    this.colours = colours;
    this.colour = colours[chain.method];
    this.#drawBackdrop(truth, width, height);
    this.#drawTrail();
    if (detail && chain.event) this.#drawUpdate(progress);
    else this.#cross(chain.state.f, colours.ink, 7, 2.4);
    this.#dot([0, 0], 2.5, colours.ink);
  }

  // --- background, which does not change in a run: posterior, prior, axes -------------------------------------------

  #drawBackdrop(truth, width, height) {
    const { made, colours, chain, context } = this;
    const stale = made.truth !== truth || made.colours !== colours || made.width !== width || made.height !== height;
    if (stale) {
      this.made = { truth, colours, width, height };
      const across = 220;
      const down = Math.round((across * height) / width);
      const { rangeX, rangeY } = this.view;
      this.made.posterior = makeField(truth.logDensity, rangeX, rangeY, across, down);
      this.made.likelihood = makeField(chain.problem.logLikelihood, rangeX, rangeY, across, down);
      this.#shade(this.made.posterior, truth.top);
      this.made.contours = truth.levels.map((level) => this.#path(contour(this.made.posterior, level)));
    }
    this.#drawAxes(width, height);
    context.imageSmoothingQuality = "high";
    context.drawImage(this.backdrop, 0, 0, width, height);
    this.made.contours.forEach((path, k) => this.#stroke(path, colours.posterior, 1, [0.9, 0.6, 0.35][k]));
    for (const radius of [1, 2]) {
      const path = new Path2D();
      for (let k = 0; k <= 120; k++) {
        const angle = (k / 120) * FULL_TURN;
        const f = chain.problem.prior.color([radius * Math.cos(angle), radius * Math.sin(angle)]);
        path.lineTo(...this.view.pixel(f));
      }
      this.#stroke(path, colours.grey, 1, 0.8, [2, 4]);
    }
  }

  /** Shade the posterior density. */
  #shade({ values, countX, countY }, top) {
    const [red, green, blue] = [1, 3, 5].map((k) => parseInt(this.colours.posterior.slice(k, k + 2), 16));
    const image = new ImageData(countX, countY);
    for (let j = 0; j < countY; j++) {
      for (let i = 0; i < countX; i++) {
        const density = Math.exp(values[(countY - 1 - j) * countX + i] - top);
        image.data.set([red, green, blue, 120 * density ** 0.7], 4 * (j * countX + i));
      }
    }
    Object.assign(this.backdrop, { width: countX, height: countY });
    this.backdrop.getContext("2d").putImageData(image, 0, 0);
  }

  #drawAxes(width, height) {
    const { context, colours, view } = this;
    const [x0, y0] = view.pixel([0, 0]);
    this.#stroke(
      this.#lines([
        [0, y0, width, y0],
        [x0, 0, x0, height],
      ]),
      colours.faint,
      1,
      1,
    );
    context.fillStyle = colours.grey;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    for (let k = -9; k <= 9; k++) {
      const [x, y] = view.pixel([k, k]);
      if (k && x > 20 && x < width - 34) context.fillText(`${k}`.replace("-", "−"), x, height - 6);
      if (k && y > 26 && y < height - 24) context.fillText(`${k}`.replace("-", "−"), 10, y + 4);
    }
    context.font = "italic 14px Georgia, serif";
    context.fillText("f₁", width - 14, height - 7);
    context.fillText("f₂", 12, 17);
  }

  #drawTrail() {
    const { f1, f2 } = this.chain.trace;
    const { context, view } = this;
    const first = Math.max(0, f1.length - 4000);
    const many = f1.length - first;
    context.fillStyle = this.colour;
    context.globalAlpha = many < 300 ? 0.55 : many < 1500 ? 0.4 : 0.28;
    const size = many < 300 ? 3.6 : 2.6;
    for (let k = first; k < f1.length; k++) {
      const [x, y] = view.pixel([f1[k], f2[k]]);
      context.fillRect(x - size / 2, y - size / 2, size, size);
    }
    context.globalAlpha = 1;
  }

  // --- the current update, up to the current event ------------------------------------------------------------------

  #drawUpdate(progress) {
    const { chain, colours } = this;
    const { event, events, shown, origin, noise, method } = chain;
    const [here, there, aside] = chain.forward ? ["f\u2009′", "f", "ν\u2009′"] : ["f", "f\u2009′", "ν"];
    const seen = events.slice(0, shown + 1);
    const has = (step) => seen.some((one) => one.step === step);
    const curve = chain.curve();
    const fading = (step) => (event.step === step ? progress : 1);

    if (has(2)) this.#drawSlice(curve, fading(2));
    this.#drawCurve(curve, event.step === 1 ? progress : 1);
    if (has(3)) this.#drawBracket(curve, seen, progress, fading(3));

    // Marks, with the newest on top.
    const last = seen.findLast((one) => one.step === 4);
    const judged = [8, 9, 0].includes(event.step);
    for (const one of seen) {
      if (one.step === 4 && (one !== last || judged)) this.#dot(one.point, 5, colours.paper, colours.grey, 1.5);
    }
    if (method !== "line") this.#drawNu(noise.nu, aside, event.step === 1 ? progress : 1);
    else this.#drawArrow(origin.f, noise.nu, event.step === 1 ? progress : 1);
    if (event.step === 3 || event.step === 9) this.#dot(curve.at(event.theta), 6, colours.paper, colours.proposal, 2.2);
    if (event.step === 6) {
      this.#cross(origin.f, colours.grey, 5.5, 1.6);
      this.#dot(event.state.f, chain.forward ? 7 : 9.5, colours.proposal, colours.ink, 1.2);
      this.#cross(
        chain.forward ? origin.f : curve.at(event.theta * progress),
        colours.ink,
        chain.forward ? 7 : 5,
        2.6,
        1,
      );
      this.#label(there, event.state.f, origin.f);
      this.#label(here, origin.f, event.state.f);
      return;
    }
    if (last && event.step === 4) {
      this.#dot(last.point, 7 * Math.min(1, 0.4 + progress), colours.proposal, colours.ink, 1.2);
      this.#label(there, last.point, origin.f);
    }
    this.#cross(origin.f, colours.ink, 7, 2.6);
    this.#label(here, origin.f, event.step === 4 ? last.point : undefined);
  }

  /** Draw the region where the likelihood (for a line: times the prior) is above the level, and the curve inside it. */
  #drawSlice(curve, strength) {
    const { made, chain } = this;
    const { origin, noise, method, problem } = chain;
    const logY = origin.value - noise.level;
    const level = method === "line" ? logY + problem.prior.logDensity(origin.f) : logY;
    if (made.events !== chain.events) {
      made.events = chain.events;
      made.region = this.#path(contour(method === "line" ? made.posterior : made.likelihood, level));
    }
    this.#stroke(made.region, this.colour, 1.3, 0.8 * strength);
    if (method === "neal") return; // it tries one point of the ellipse only
    const [least, most] = this.#range();
    const path = new Path2D();
    let inside = false;
    for (let k = 0; k <= 1440; k++) {
      const theta = least + ((most - least) * k) / 1440;
      const point = curve.at(theta);
      const on = problem.logLikelihood(point) > logY - curve.logFactor(theta);
      if (on) path[inside ? "lineTo" : "moveTo"](...this.view.pixel(point));
      inside = on;
    }
    this.#stroke(path, this.colour, 10, 0.38 * strength);
  }

  #drawCurve(curve, progress) {
    const [least, most] = this.#range();
    const path = new Path2D();
    for (let k = 0; k <= 240; k++)
      path.lineTo(...this.view.pixel(curve.at((least + ((most - least) * k) / 240) * progress)));
    this.#stroke(path, this.colours.grey, 1.2, 1);
  }

  /** Draw the bracket outside the ellipse, or next to the line, with a mark at each end. */
  #drawBracket(curve, seen, progress, strength) {
    const { chain, view, colours } = this;
    const event = seen.at(-1);
    let { thetaMin, thetaMax } = event;
    if (event.step === 8) {
      // animate from the old bracket to the new one
      const before = seen.at(-2);
      thetaMin = before.thetaMin + (thetaMin - before.thetaMin) * progress;
      thetaMax = before.thetaMax + (thetaMax - before.thetaMax) * progress;
    }
    const outside = (theta, distance) => {
      const point = curve.at(theta);
      const [x, y] = view.pixel(point);
      const [a, b] = chain.method === "line" ? chain.noise.nu : curve.at(theta + Math.PI / 2); // the tangent
      const outwards = chain.method === "line" || b * point[0] - a * point[1] >= 0 ? distance : -distance;
      const length = Math.hypot(a, b) || 1;
      return [x + (b / length) * outwards, y + (a / length) * outwards];
    };
    const path = new Path2D();
    for (let k = 0; k <= 720; k++) path.lineTo(...outside(thetaMin + ((thetaMax - thetaMin) * k) / 720, 15));
    for (const end of [thetaMin, thetaMax]) {
      path.moveTo(...outside(end, 9));
      path.lineTo(...outside(end, 21));
    }
    this.#stroke(path, colours.ink, 2.2, 0.9 * strength);
  }

  #drawNu(nu, name, strength) {
    const [x, y] = this.view.pixel(nu);
    const size = 8;
    const path = this.#lines([
      [x - size, y, x + size, y],
      [x, y - size, x, y + size],
    ]);
    this.#stroke(path, this.colours.paper, 6, strength);
    this.#stroke(path, this.colours.ink, 2.4, strength);
    this.#label(name, nu);
  }

  /** Draw nu as a direction, for a line. */
  #drawArrow(f, nu, progress) {
    const end = [f[0] + nu[0] * progress, f[1] + nu[1] * progress];
    const [[x0, y0], [x, y]] = [this.view.pixel(f), this.view.pixel(end)];
    const angle = Math.atan2(y - y0, x - x0);
    const barb = (turn) => [x, y, x - 10 * Math.cos(angle + turn), y - 10 * Math.sin(angle + turn)];
    this.#stroke(this.#lines([barb(0.45), barb(-0.45)]), this.colours.ink, 2, 1);
    this.#label("f + ν", end, f, 30);
  }

  /** Return the part of the curve that is drawn. */
  #range() {
    const { method, problem } = this.chain;
    const most = 1.6 * Math.max(1, problem.width);
    return method === "line" ? [-most, most] : [0, FULL_TURN];
  }

  // --- dragging -----------------------------------------------------------------------------------------------------

  /** Return the mark at a pixel: "origin", "state", "nu" or null. */
  markAt(x, y, within) {
    const { chain, view } = this;
    if (!view) return null;
    const marks = { state: chain.state.f };
    if (chain.event) {
      const [f, nu] = [chain.origin.f, chain.noise.nu];
      Object.assign(marks, { origin: f, nu: chain.method === "line" ? [f[0] + nu[0], f[1] + nu[1]] : nu });
    }
    let [found, least] = [null, within];
    for (const [name, f] of Object.entries(marks)) {
      const [a, b] = view.pixel(f);
      const distance = Math.hypot(a - x, b - y);
      if (distance <= least) [found, least] = [name, distance];
    }
    return found;
  }

  // --- strokes --------------------------------------------------------------------------------------------------------

  #path(segments) {
    return this.#lines(segments.map(([a, b, c, d]) => [...this.view.pixel([a, b]), ...this.view.pixel([c, d])]));
  }

  #lines(segments) {
    const path = new Path2D();
    for (const [a, b, c, d] of segments) {
      path.moveTo(a, b);
      path.lineTo(c, d);
    }
    return path;
  }

  #stroke(path, colour, width, alpha, dashes = []) {
    const { context } = this;
    context.setLineDash(dashes);
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.globalAlpha = alpha;
    context.stroke(path);
    context.globalAlpha = 1;
    context.setLineDash([]);
  }

  #dot(f, radius, fill, edge = null, width = 1) {
    const { context } = this;
    context.beginPath();
    context.arc(...this.view.pixel(f), radius, 0, FULL_TURN);
    context.fillStyle = fill;
    context.fill();
    if (!edge) return;
    context.strokeStyle = edge;
    context.lineWidth = width;
    context.stroke();
  }

  #cross(f, colour, size, width, halo = 3.5) {
    const [x, y] = this.view.pixel(f);
    const path = this.#lines([
      [x - size, y - size, x + size, y + size],
      [x - size, y + size, x + size, y - size],
    ]);
    this.#stroke(path, this.colours.paper, width + halo, 1);
    this.#stroke(path, colour, width, 1);
  }

  /** Write a label next to a mark, on the side away from its neighbour or from the origin. */
  #label(text, f, neighbour = [0, 0], distance = 21) {
    const { context, colours } = this;
    const [a, b] = [f[0] - neighbour[0], f[1] - neighbour[1]];
    const length = Math.hypot(a, b) || 1;
    const [px, py] = this.view.pixel(f);
    const [x, y] = [px + (distance * a) / length, py + 6 - (distance * b) / length];
    context.font = "italic 19px Georgia, 'Times New Roman', serif";
    context.textAlign = "center";
    context.lineWidth = 4;
    context.strokeStyle = colours.paper;
    context.strokeText(text, x, y);
    context.fillStyle = colours.ink;
    context.fillText(text, x, y);
  }
}

"use strict";

// Charts of the results of the run so far.

const DASHES = { elliptical: [], neal: [5, 3], line: [2, 2.5] }; // so that methods differ without colour, too

/** Prepare a chart: an area with margins, and scales of both axes. */
function chart(canvas, colours, [low, high], [bottom, top], margins = {}) {
  const { context, width, height } = prepare(canvas);
  const { left = 8, right = 8, above = 6, below = 20 } = margins;
  const area = { left, right: width - right, top: above, bottom: height - below };
  const x = (value) => area.left + ((value - low) / (high - low)) * (area.right - area.left);
  const y = (value) => area.bottom - ((value - bottom) / (top - bottom)) * (area.bottom - area.top);
  context.font = "11px system-ui, sans-serif";
  const stroke = (points, colour, lineWidth = 1.5, dashes = [], alpha = 1) => {
    context.beginPath();
    for (const point of points) point ? context.lineTo(...point) : context.moveTo(NaN, NaN);
    Object.assign(context, { strokeStyle: colour, lineWidth, globalAlpha: alpha });
    context.setLineDash(dashes);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
  };
  const tick = (value, text) => {
    context.fillStyle = colours.grey;
    context.textAlign = x(value) < area.left + 12 ? "left" : x(value) > area.right - 12 ? "right" : "center";
    context.fillText(text, x(value), area.bottom + 14);
  };
  return { context, area, x, y, stroke, tick };
}

/** Return a few round numbers between two numbers. */
function roundTicks(low, high, most = 5) {
  const step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000, 10000, 100000].find(
    (size) => (high - low) / size <= most,
  );
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, k) =>
    Number(((first + k) * step).toFixed(2)),
  );
}

const signed = (x) => `${x}`.replace("-", "−");

/** Draw a histogram of a quantity for every chain, and its exact posterior density. */
function drawHistogram(canvas, chains, truth, name, colours) {
  let { low, high } = describe(truth, name);
  const count = 44;
  if (high - low < 1e-9) [low, high] = [low - 0.5, high + 0.5];
  else [low, high] = [low - 0.04 * (high - low), high + 0.04 * (high - low)];
  const exact = exactDensity(truth, name, low, high, count);
  const bars = chains.map((chain) => histogram(afterWarmup(chain.trace[name]), low, high, count));
  const peak = Math.max(...exact.map(([, density]) => density));
  const top = Math.max(peak, ...bars[0].map((bar) => Math.min(bar, 2 * peak)));
  const { context, area, x, y, stroke, tick } = chart(canvas, colours, [low, high], [0, top * 1.06]);
  const edge = (k) => x(low + ((high - low) * k) / count);
  const steps = (bins) =>
    [...bins].flatMap((bar, k) => [
      [edge(k), y(bar)],
      [edge(k + 1), y(bar)],
    ]);
  chains.forEach((chain, k) => {
    const outline = [[edge(0), area.bottom], ...steps(bars[k]), [edge(count), area.bottom]];
    if (k === 0) {
      context.beginPath();
      outline.forEach((point) => context.lineTo(...point));
      context.fillStyle = colours[chain.method];
      context.globalAlpha = 0.28;
      context.fill();
      context.globalAlpha = 1;
    } else stroke(outline, colours[chain.method], 1.5, DASHES[chain.method]);
  });
  stroke(
    exact.map(([value, density]) => [x(value), y(density)]),
    colours.ink,
    1.4,
  );
  stroke(
    [
      [area.left, area.bottom],
      [area.right, area.bottom],
    ],
    colours.faint,
    1,
  );
  for (const value of roundTicks(low, high)) tick(value, signed(value));
}

/** Draw the autocorrelation of a quantity against the lag. */
function drawAutocorrelation(canvas, chains, name, colours) {
  const most = 50;
  const { context, area, x, y, stroke, tick } = chart(canvas, colours, [0, most], [-0.25, 1.05], { left: 24 });
  for (const level of [0, 0.5, 1]) {
    stroke(
      [
        [area.left, y(level)],
        [area.right, y(level)],
      ],
      level ? colours.faint : colours.grey,
      level ? 0.7 : 1,
    );
    context.fillStyle = colours.grey;
    context.textAlign = "right";
    context.fillText(`${level}`, area.left - 5, y(level) + 4);
  }
  for (let lag = 0; lag <= most; lag += 10) tick(lag, `${lag}`);
  for (const chain of chains) {
    const trace = afterWarmup(chain.trace[name]);
    if (trace.length < 10) continue;
    const covariances = autocovariances(trace, most);
    if (covariances[0] < 1e-16) continue;
    stroke(
      covariances.map((value, lag) => [x(lag), y(Math.max(-0.25, value / covariances[0]))]),
      colours[chain.method],
      2,
      DASHES[chain.method],
    );
  }
}

/** Draw the trace of the last 300 draws. */
function drawTrace(canvas, chains, truth, name, colours) {
  const { low, high } = describe(truth, name);
  const margin = 0.05 * (high - low) + 0.05;
  const length = chains[0].trace[name].length;
  const first = Math.max(0, length - 300);
  const { area, x, y, stroke, tick, context } = chart(
    canvas,
    colours,
    [first, first + 300],
    [low - margin, high + margin],
    { left: 30 },
  );
  context.textAlign = "right";
  context.fillStyle = colours.grey;
  for (const value of roundTicks(low, high, 4)) context.fillText(signed(value), area.left - 5, y(value) + 4);
  stroke(
    [
      [area.left, area.bottom],
      [area.right, area.bottom],
    ],
    colours.faint,
    1,
  );
  const clip = (value) => y(Math.min(high + margin, Math.max(low - margin, value)));
  for (const chain of [...chains].reverse()) {
    const recent = chain.trace[name].slice(first);
    stroke(
      recent.map((value, k) => [x(first + k), clip(value)]),
      colours[chain.method],
      1.2,
      [],
      chain === chains[0] ? 1 : 0.8,
    );
  }
  tick(first, `update ${first}`);
  tick(first + 300, `${first + 300}`);
}

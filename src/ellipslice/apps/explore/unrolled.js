"use strict";

// The plot of the likelihood along the curve that an update searches.

function inMultiplesOfPi(theta) {
  const multiple = Number((theta / Math.PI).toFixed(2));
  return multiple === 0 ? "0" : `${signed(multiple).replace(/^(−?)1$/, "$1")}π`;
}

/** Draw log L against the angle (for a line: plus the log prior), with slice level, bracket and proposals. */
function drawUnrolled(canvas, chain, colours, progress, detail) {
  const { method, problem } = chain;
  const straight = method === "line";
  const reach = straight ? problem.width : method === "neal" ? Math.PI : problem.bracket.width;
  const shown = detail && chain.event;
  const seen = shown ? chain.events.slice(0, chain.shown + 1) : [];
  const has = (step) => seen.some((one) => one.step === step);
  const curve = shown ? chain.curve() : null;
  const height = (theta) => problem.logLikelihood(curve.at(theta)) + curve.logFactor(theta);
  const values = shown ? Array.from({ length: 601 }, (_, k) => height(-reach + (reach * k) / 300)) : [0];
  const logY = shown ? chain.origin.value - chain.noise.level : 0;
  const finite = values.filter(Number.isFinite);
  const top = Math.max(...finite, shown ? chain.origin.value : 0);
  const bottom = Math.min(Math.max(Math.min(...finite), top - 12), logY - 1.5);
  const margin = 0.12 * (top - bottom) + 0.1;
  const { context, area, x, y, stroke, tick } = chart(
    canvas,
    colours,
    [-reach, reach],
    [bottom - margin, top + margin],
    { above: 14, below: 32 },
  );
  const floor = (value) => Math.min(area.bottom, Number.isFinite(value) ? y(value) : area.bottom);
  stroke(
    [
      [area.left, area.bottom],
      [area.right, area.bottom],
    ],
    colours.faint,
    1,
  );
  stroke(
    [
      [x(0), area.top],
      [x(0), area.bottom],
    ],
    colours.faint,
    1,
  );
  for (const part of [-1, -0.5, 0, 0.5, 1]) {
    const text = straight ? signed(Number((part * reach).toFixed(2))) : inMultiplesOfPi(part * reach);
    tick(part * reach, text);
  }
  context.fillStyle = colours.grey;
  context.textAlign = "left";
  context.fillText(straight ? "log L + log prior, along the line f + w ν" : "log L, along the ellipse", area.left, 10);
  context.textAlign = "right";
  context.fillText(straight ? "w" : "θ", area.right, 10);
  if (!shown) {
    context.textAlign = "center";
    if (!detail) context.fillText("too fast to draw", (area.left + area.right) / 2, (area.top + area.bottom) / 2);
    return;
  }
  context.textAlign = "left";
  for (const value of roundTicks(bottom, top, 3)) context.fillText(signed(value), area.left, y(value) + 4);
  const points = values.map((value, k) => [x(-reach + (reach * k) / 300), floor(value)]);
  if (has(2)) {
    // shade the slice
    context.fillStyle = colours[method];
    context.globalAlpha = 0.3 * (chain.event.step === 2 ? progress : 1);
    context.beginPath();
    context.moveTo(area.left, y(logY));
    for (const [at, height] of points) context.lineTo(at, Math.min(height, y(logY)));
    context.lineTo(area.right, y(logY));
    context.fill();
    context.globalAlpha = 1;
  }
  stroke(points, colours[method], 1.8);
  if (has(2)) {
    stroke(
      [
        [area.left, y(logY)],
        [area.right, y(logY)],
      ],
      colours.ink,
      1.2,
      [4, 3],
    );
  }
  if (has(3)) {
    let { thetaMin, thetaMax } = chain.event;
    if (chain.event.step === 8) {
      const before = seen.at(-2);
      thetaMin = before.thetaMin + (thetaMin - before.thetaMin) * progress;
      thetaMax = before.thetaMax + (thetaMax - before.thetaMax) * progress;
    }
    context.fillStyle = colours.paper;
    context.globalAlpha = 0.72;
    context.fillRect(area.left, area.top, x(thetaMin) - area.left, area.bottom + 1 - area.top);
    context.fillRect(x(thetaMax), area.top, area.right - x(thetaMax), area.bottom + 1 - area.top);
    context.globalAlpha = 1;
    const level = area.bottom + 20;
    stroke(
      [
        [x(thetaMin), level],
        [x(thetaMax), level],
      ],
      colours.ink,
      2.2,
    );
    for (const end of [thetaMin, thetaMax])
      stroke(
        [
          [x(end), level - 5],
          [x(end), level + 5],
        ],
        colours.ink,
        2.2,
      );
  }
  if (has(2)) {
    context.fillStyle = colours.ink;
    context.textAlign = "right";
    context.fillText("log y", area.right, y(logY) - 4);
  }
  const last = seen.findLast((one) => one.step === 4);
  for (const one of seen) {
    if (one.step !== 4) continue;
    const newest = one === last && [4, 6].includes(chain.event.step);
    context.beginPath();
    context.arc(x(one.theta), floor(one.value + curve.logFactor(one.theta)), newest ? 5.5 : 4, 0, FULL_TURN);
    context.fillStyle = newest ? colours.proposal : colours.paper;
    context.strokeStyle = newest ? colours.ink : colours.grey;
    context.lineWidth = 1.2;
    context.fill();
    context.stroke();
  }
  if ([3, 9].includes(chain.event.step))
    stroke(
      [
        [x(chain.event.theta), area.top],
        [x(chain.event.theta), area.bottom],
      ],
      colours.proposal,
      1.5,
      [3, 2],
    );
  const here = [x(0), floor(chain.origin.value)];
  for (const side of [1, -1])
    stroke(
      [
        [here[0] - 5, here[1] - 5 * side],
        [here[0] + 5, here[1] + 5 * side],
      ],
      colours.ink,
      2.2,
    );
}

"use strict";

// Results of the run so far: charts, and a table with the effective sample size of each method.

function drawResults(chains, truth, name, colours) {
  const length = chains[0].trace.f1.length;
  find("so-far").textContent = length === 1 ? "After 1 update" : `After ${length.toLocaleString("en")} updates`;
  find("warmup").textContent = length < 10 ? "" : "without the first tenth (warm-up)";
  drawHistogram(find("histogram"), chains, truth, name, colours);
  drawAutocorrelation(find("autocorrelation"), chains, name, colours);
  drawTrace(find("trace"), chains, truth, name, colours);
  const exact = tableRow("exact", "Exact posterior", ["", "", "", number(describe(truth, name).mean), "", "", ""]);
  const rows = chains.map((chain) => tableRow(chain.method, METHODS[chain.method].name, summaryCells(chain, name)));
  find("table").innerHTML = [...rows, exact].join("");
}

/** Return updates, evaluations, percentage that moved, mean, and ESS: total, per update and per evaluation. */
function summaryCells({ trace, moves }, name) {
  if (!trace.f1.length) return ["0", "0", "–", "–", "–", "–", "–"];
  const kept = afterWarmup(trace[name]);
  const size = kept.length >= 20 ? effectiveSize(kept) : NaN; // too few draws for an estimate
  const shown = (x, options) => (Number.isFinite(x) ? x.toLocaleString("en", options) : "–");
  const [whole, two] = [{ maximumFractionDigits: 0 }, { maximumSignificantDigits: 2 }];
  return [
    shown(trace.f1.length, whole),
    shown(total(trace.evaluations), whole),
    `${Math.round((100 * moves) / trace.f1.length)} %`,
    number(average(kept)),
    shown(size, whole),
    shown(size / kept.length, two),
    shown(size / total(afterWarmup(trace.evaluations)), two),
  ];
}

/** Return a piece of a method's line, for the legend. */
function swatch(method) {
  return `<span class="swatch ${method}"></span>`;
}

function tableRow(method, name, cells) {
  const row = cells.map((cell) => `<td>${cell}</td>`).join("");
  return `<tr data-method="${method}"><th scope="row">${swatch(method)}${name}</th>${row}</tr>`;
}

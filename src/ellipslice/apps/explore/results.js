"use strict";

// What a run has gathered so far: charts, and a table of what each method's draws are worth.

function drawResults(chains, truth, name, colours) {
  const length = chains[0].trace.f1.length;
  find("so-far").textContent = length === 1 ? "After 1 update" : `After ${length.toLocaleString("en")} updates`;
  find("warmup").textContent = length < 10 ? "" : "less the first tenth, as warm-up";
  drawHistogram(find("histogram"), chains, truth, name, colours);
  drawAutocorrelation(find("autocorrelation"), chains, name, colours);
  drawTrace(find("trace"), chains, truth, name, colours);
  const exact = tableRow("exact", "Exact posterior", ["", "", "", number(describe(truth, name).mean), "", "", ""]);
  const rows = chains.map((chain) => tableRow(chain.method, METHODS[chain.method].name, worth(chain, name)));
  find("table").innerHTML = [...rows, exact].join("");
}

/** Updates, evaluations, how many moved, mean, effective sample size, and that for each update and each evaluation. */
function worth({ trace, moves }, name) {
  if (!trace.f1.length) return ["0", "0", "–", "–", "–", "–", "–"];
  const kept = afterWarmup(trace[name]);
  const size = kept.length >= 20 ? effectiveSize(kept) : NaN; // fewer say nothing
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

/** A piece of a method's line, as the charts have it. */
function swatch(method) {
  return `<span class="swatch ${method}"></span>`;
}

function tableRow(method, name, cells) {
  const row = cells.map((cell) => `<td>${cell}</td>`).join("");
  return `<tr data-method="${method}"><th scope="row">${swatch(method)}${name}</th>${row}</tr>`;
}

"use strict";

// What a run has gathered so far: charts, and a table of what each method's draws are worth.

function drawResults(chains, truth, name, colours) {
  const length = chains[0].trace.f1.length;
  find("so-far").textContent = length === 1 ? "After 1 update" : `After ${length.toLocaleString("en")} updates`;
  drawHistogram(find("histogram"), chains, truth, name, colours);
  drawAutocorrelation(find("autocorrelation"), chains, name, colours);
  drawTrace(find("trace"), chains, truth, name, colours);
  const exact = tableRow("ink", "", "Exact posterior", ["", "", "", number(describe(truth, name).mean), "", "", ""]);
  const rows = chains.map((chain) =>
    tableRow(chain.method, chain.method, METHODS[chain.method].name, worth(chain, name)),
  );
  find("table").innerHTML = [...rows, exact].join("");
}

/** Updates, evaluations, how many moved, mean, effective size, and that for each update and each evaluation. */
function worth({ trace, evaluations, moves }, name) {
  const count = trace.f1.length;
  if (!count) return ["0", "0", "–", "–", "–", "–", "–"];
  const size = count >= 20 ? effectiveSize(trace[name]) : NaN; // fewer say nothing
  const rounded = (x, digits) => {
    const options = { maximumFractionDigits: digits, minimumFractionDigits: digits };
    return Number.isFinite(x) ? x.toLocaleString("en", options) : "–";
  };
  return [
    rounded(count, 0),
    rounded(evaluations, 0),
    `${Math.round((100 * moves) / count)} %`,
    number(average(trace[name])),
    rounded(size, 0),
    rounded(size / count, 3),
    rounded(size / evaluations, 3),
  ];
}

function tableRow(colour, method, name, cells) {
  const swatch = `<span class="swatch ${method}" style="border-color: var(--${colour})"></span>`;
  const row = cells.map((cell) => `<td>${cell}</td>`).join("");
  return `<tr data-method="${method}"><th scope="row">${swatch}${name}</th>${row}</tr>`;
}

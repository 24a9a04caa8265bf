"""The report of an experiment: a comparison with the paper, in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scipy.stats import spearmanr

from ellipslice.apps.paper import agreement
from ellipslice.apps.paper.agreement import AGREEMENT, ORIGINAL_DATA, TOO_CLOSE, Comparison
from ellipslice.apps.paper.methods import METHODS
from ellipslice.apps.paper.problems import PROBLEMS
from ellipslice.apps.paper.protocol import Cell, Protocol
from ellipslice.apps.paper.results import PAPER_ITERATIONS, Results
from ellipslice.data import published_figure6

MIN_RUNS_FOR_ERRORS = 10
"""Smallest number of runs for a reliable standard error."""

ALTERNATIVE_TEXTS = {
    "figure3.png": "Figure 3: one update on its ellipse",
    "figure4.png": "Figure 4: trace plots on R01",
    "figure5.png": "Figure 5: trace plots on R10",
    "figure6.png": "Figure 6: effective sample sizes, times and evaluations of the methods",
    "beyond.png": "Methods that are not in the paper",
}

DIFFERENCES = """\
## Differences from the paper

- **Data of R01 to R10.** The paper's data came from random generators of old MATLAB versions and were not kept, so ours
  are other draws. Between data sets in one dimension, effective sample sizes differ by a factor of three or more. So
  their values are not compared there; the order of the methods is.
- **Jitter.** The authors added 1e-9 to the diagonal of every covariance. It is added here for line slices, where it
  matters, and for Neal's method. (With a nearly singular covariance it makes the slice along a line narrower, most of
  all on Mine.) Elliptical slices and control variables use the covariance without it: the former never divide by it,
  the latter add their own small number.
- **Step sizes of Neal's method.** They are the authors': 0.05 on R01 to R10, 0.04 on USPS and 0.10 on Mine. So on R01
  to R10 they were tuned on other data.
- **Control variables.** Every run searches its own control inputs, as in the authors' code, and its time includes the
  search. Here the control variables are redrawn given f at each sweep; in the authors' code they are kept. The paper
  has no result for USPS, which is omitted here, too. A trace that mixes very slowly has no meaningful effective sample
  size: the estimator of R's coda may return any number between 0 and the length of the trace.
- **Time.** It is the processor time of all threads: here of compiled code, in the paper of MATLAB on one thread of a
  3 GHz Xeon. Runs in parallel share their time equally. Compilation and the search for control inputs are included,
  so short runs appear slow.
- **Evaluations.** They are counted as in the paper, by proposals. Where the log-likelihood is log-concave, elliptical
  slice sampling rejects most proposals without computing it. The column "computed" has the evaluations that remain.
- **Errors in the paper.** Its Figure 5 shows points of the 1-dimensional run in the 10-dimensional elliptical panel, by
  a mistake in its script. Ours shows the 10-dimensional run. Its "M = 78" was 71. On Mine, its text states that
  control variables took "about 50 % less" time, but its bars show 28 %.
- **Methods that are not in the paper** (`recentred` and `nuts`, if they were run). `recentred` is elliptical slice
  sampling around a reference Gaussian that is fitted to the posterior, `sample(reference="auto")`. On R01 to R10 that
  Gaussian is the posterior itself. `nuts` is BlackJAX's NUTS in whitened coordinates. Its evaluations include the
  gradient. Both were fitted once per problem, and the time of the first runs includes the fit.
- **Numbers of the paper.** It prints the numbers under its bars; all others were measured from the figure. Its error
  bars are standard deviations over 100 runs. In this report, ± is the standard error of a mean.
"""


def report(results: Results, protocol: Protocol, machines: Sequence[str], figures: Sequence[str]) -> str:
    """Return the report in Markdown."""
    parts = [
        heading(results, protocol, machines),
        summary(results),
        "\n\n".join(f"![{ALTERNATIVE_TEXTS.get(name, name)}]({name})" for name in figures) + "\n",
        effective_table(results),
        trends(results),
        evaluations_table(results),
        time_table(results),
        DIFFERENCES,
    ]
    return "\n".join(part for part in parts if part)


def heading(results: Results, protocol: Protocol, machines: Sequence[str]) -> str:
    """Return the title and a paragraph on runs, settings and machines."""
    runs = sorted({result.runs for result in results.values()})
    number = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    settings = (
        "This report compares our results with Section 4 of Murray, Adams & MacKay (2010), *Elliptical slice "
        f"sampling*. Runs of each method on each problem: {number}. Iterations per run: {protocol.burn_in:,} warm-up "
        f"and {protocol.iterations:,} kept. Precision: {protocol.precision}. Seed: {protocol.seed}. "
        f"Machines: {'; and '.join(machines)}.\n"
    )
    lines = ["# Reproduction report: the experiments of Murray et al. (2010)\n", settings]
    if protocol.iterations != PAPER_ITERATIONS:
        lines.append(
            f"**These runs kept {protocol.iterations:,} iterations; those of the paper kept {PAPER_ITERATIONS:,}.** "
            "Effective sample sizes and seconds are scaled to the length of the paper. The effective sample size of a "
            "short trace is imprecise and biased.\n"
        )
    if runs[0] < MIN_RUNS_FOR_ERRORS:
        lines.append(
            f"**Standard errors from fewer than {MIN_RUNS_FOR_ERRORS} runs are imprecise.** Some rows are then marked "
            "as different by chance.\n"
        )
    return "\n".join(lines)


def summary(results: Results) -> str:
    """Return the number of rows that agree with the paper, and the names of those that do not."""
    kinds: dict[str, tuple[Callable[..., Comparison], list[Cell]]] = {
        "Evaluations per iteration": (agreement.evaluations, list(results)),
        "Effective sample sizes on USPS and Mine": (
            agreement.effective,
            [cell for cell in results if cell.problem in ORIGINAL_DATA],
        ),
        "Order of the methods on R01 to R10": (
            agreement.effective,
            [cell for cell in results if cell.problem not in ORIGINAL_DATA],
        ),
    }
    lines = ["## Summary", "", AGREEMENT, ""]
    for name, (compare, cells) in kinds.items():
        comparisons = {cell: compare(cell, results) for cell in cells}
        compared = [cell for cell in cells if comparisons[cell].agrees is not None]
        if compared:
            differing = [str(cell) for cell in compared if not comparisons[cell].agrees]
            others = f" Different: {', '.join(differing)}." if differing else ""
            agreeing = len(compared) - len(differing)
            unclear = sum(comparison.text == TOO_CLOSE for comparison in comparisons.values())
            omitted = f" Not compared: {unclear} rows in which the methods are too close." if unclear else ""
            lines.append(f"- {name}: {agreeing} of {len(compared)} rows agree with the paper.{others}{omitted}")
    return "\n".join([*lines, ""])


def effective_table(results: Results) -> str:
    """Return the table of effective sample sizes, ours and the paper's."""
    published, rows = published_figure6(), []
    for cell, result in results.items():
        ratio, theirs = agreement.relative(cell, results), published.get(cell)
        ours = [result.effective.text(0), ratio.text(2) if ratio else ""]
        if theirs is None:
            paper = ["", ""]
        else:
            share = theirs.effective / published[cell.problem, "elliptical"].effective
            paper = [f"{theirs.effective:,.0f} ± {theirs.effective_deviation / 10:,.0f}", f"{share:.2f}"]
        rows.append([*cell, *ours, *paper, agreement.effective(cell, results).text])
    columns = ["problem", "method", "ours", "ratio to elliptical", "paper", "ratio to elliptical", "comparison"]
    return table(f"Effective sample size of {PAPER_ITERATIONS:,} iterations", columns, rows)


def trends(results: Results) -> str:
    """Return the rank correlation of our effective sample sizes with the paper's over R01 to R10, per method."""
    published, found = published_figure6(), []
    for method in METHODS:
        cells = [Cell(name, method) for name in PROBLEMS if name not in ORIGINAL_DATA and Cell(name, method) in results]
        if len(cells) < 5:
            continue
        ours = [results[cell].effective.mean for cell in cells]
        rank = spearmanr(ours, [published[cell].effective for cell in cells]).statistic  # pyright: ignore[reportAttributeAccessIssue]
        found.append(f"{method} {rank:.2f}")
    if not found:
        return ""
    return f"Rank correlation of our effective sample sizes with the paper's over R01 to R10: {', '.join(found)}.\n"


def evaluations_table(results: Results) -> str:
    """Return the table of evaluations per iteration, ours and the paper's."""
    published, rows = published_figure6(), []
    for cell, result in results.items():
        paper = f"{published[cell].evaluations:.2f}" if cell in published else ""
        comparison = agreement.evaluations(cell, results).text
        rows.append([*cell, result.evaluations.text(3), paper, comparison, result.computed.text(3)])
    columns = ["problem", "method", "ours", "paper", "comparison", "computed"]
    return table("Evaluations of the likelihood per iteration", columns, rows)


def time_table(results: Results) -> str:
    """Return the table of processor times and effective samples per second."""
    published, rows = published_figure6(), []
    for cell, result in results.items():
        paper = f"{published[cell].seconds:,.0f}" if cell in published else ""
        controls = "" if result.controls is None else f"{result.controls.mean:.1f} control variables"
        rate = result.effective_per_second.text(1)
        rows.append([*cell, f"{result.seconds.mean:,.2f}", paper, rate, result.mean_log_likelihood.text(2), controls])
    columns = [
        "problem", "method", "seconds", "paper", "effective samples per second", "mean log-likelihood", "note",
    ]  # fmt: skip
    return table(f"Processor time of {PAPER_ITERATIONS + PAPER_ITERATIONS // 10:,} iterations", columns, rows)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table under a heading."""
    lines = [f"| {' | '.join(row)} |" for row in [columns, ["---"] * len(columns), *rows]]
    return "\n".join([f"## {title}", "", *lines, ""])

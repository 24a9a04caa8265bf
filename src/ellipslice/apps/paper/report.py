"""The report page: where we agree with the paper and where we do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scipy.stats import spearmanr

from ellipslice.apps.paper import agreement
from ellipslice.apps.paper.agreement import REAL, Verdict
from ellipslice.apps.paper.methods import METHODS
from ellipslice.apps.paper.problems import PROBLEMS
from ellipslice.apps.paper.protocol import Cell, Protocol
from ellipslice.apps.paper.results import FULL, Results
from ellipslice.data import published_figure6

ENOUGH = 10
"""Runs that a standard error needs to be one."""

DIFFERENCES = """\
## What is done differently

- R01 to R10 are other data: the paper's came from generators of old MATLAB versions and were not kept. Between data
  sets in one dimension effective samples differ by a factor of three or more, so their number is not compared there;
  whether a method has more or fewer than elliptical slice sampling is.
- The authors added 1e-9 to the diagonal of every covariance. It is added here for line slices, where it matters (with
  a nearly singular covariance the slice along a line is narrower for it, above all on Mine), and for Neal's method.
  Elliptical slices and control variables have the covariance as it is: the former never divide by it, the latter have
  a small number of their own for that.
- Neal's steps are the authors': 0.05 on R01 to R10, 0.04 on USPS and 0.10 on Mine. So on R01 to R10 they were tuned
  on other data.
- Control variables: every run finds its own control inputs, as in the authors' code, and its time counts that. They
  are drawn anew given f at each sweep, and kept in the authors' code. The paper has no result for USPS, and it is
  left out here too. A trace that hardly moves has no meaningful effective size: R's coda may give any number between
  0 and its length.
- Time is processor time of all threads, here of compiled code, there of MATLAB on one thread of a 3 GHz Xeon. Runs
  made side by side share their time equally. Compiling and finding control inputs are counted, so that short runs
  look slow. Evaluations are the paper's count of proposals; where the log-likelihood is concave most of elliptical
  slice sampling's are rejected here without being computed.
- The paper's Figure 5 shows points of the 1-dimensional run in its 10-dimensional elliptical panel, by a slip in its
  script; ours shows the 10-dimensional one. Its "M = 78" was 71. On Mine its text has control variables at "about 50
  % less" time, its bars at 28 %.
- Recentred and NUTS, if they were run, are beyond the paper. The first is elliptical slice sampling around a Gaussian
  fitted to the posterior, `sample(reference="auto")`: on R01 to R10 that is the posterior itself. NUTS is BlackJAX's,
  in coordinates where the prior is white; its evaluations are of the likelihood with its gradient. Both were fitted
  once for each problem.
- The paper's numbers under the bars are printed; all others were measured from the figure, and its error bars are
  standard deviations over 100 runs. ± are standard errors of means.
"""


def report(results: Results, protocol: Protocol, machines: Sequence[str], figures: Sequence[str]) -> str:
    """The page, in Markdown."""
    parts = [
        heading(results, protocol, machines),
        summary(results),
        "\n\n".join(f"![{name.removesuffix('.png')}]({name})" for name in figures) + "\n",
        effective_table(results),
        trends(results),
        evaluations_table(results),
        time_table(results),
        DIFFERENCES,
    ]
    return "\n".join(part for part in parts if part)


def heading(results: Results, protocol: Protocol, machines: Sequence[str]) -> str:
    """What was run, where."""
    runs = sorted({result.runs for result in results.values()})
    times = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    what = (
        "Murray, Adams & MacKay (2010), *Elliptical slice sampling*, Section 4. Runs of each method on each problem: "
        f"{times}, of {protocol.burn_in:,} + {protocol.iterations:,} iterations, in {protocol.precision} precision, "
        f"seed {protocol.seed}. Made on {'; and on '.join(machines)}.\n"
    )
    lines = ["# The paper's experiments, run again\n", what]
    if protocol.iterations != FULL:
        lines.append(
            f"**The paper kept {FULL:,} iterations of each run, these have {protocol.iterations:,}.** Effective "
            "samples and seconds are scaled to the paper's length. Of a short trace the effective size is only roughly "
            "known, and not without bias.\n"
        )
    if runs[0] < ENOUGH:
        lines.append(
            f"**With fewer than {ENOUGH} runs standard errors are rough themselves**: some rows that are alike will be "
            "said to differ.\n"
        )
    return "\n".join(lines)


def summary(results: Results) -> str:
    """How many rows agree, and which do not."""
    kinds: dict[str, tuple[Callable[..., Verdict], list[Cell]]] = {
        "evaluations per iteration": (agreement.evaluations, list(results)),
        "effective samples on USPS and Mine": (agreement.effective, [c for c in results if c.problem in REAL]),
        "order of methods on R01 to R10": (agreement.effective, [c for c in results if c.problem not in REAL]),
    }
    lines = ["## In short", ""]
    for name, (judge, rows) in kinds.items():
        verdicts = {cell: judge(cell, results) for cell in rows}
        judged = [cell for cell in rows if verdicts[cell].agrees is not None]
        if judged:
            against = [str(cell) for cell in judged if not verdicts[cell].agrees]
            others = f" Not: {', '.join(against)}." if against else ""
            lines.append(f"- {name}: {len(judged) - len(against)} of {len(judged)} rows as in the paper.{others}")
    return "\n".join([*lines, ""])


def effective_table(results: Results) -> str:
    """Effective samples, row by row."""
    published, rows = published_figure6(), []
    for cell, result in results.items():
        beside, theirs = agreement.relative(cell, results), published.get(cell)
        ours = [result.effective.text(0), beside.text(2) if beside else ""]
        if theirs is None:
            paper = ["", ""]
        else:
            share = theirs.effective / published[cell.problem, "elliptical"].effective
            paper = [f"{theirs.effective:,.0f} ± {theirs.effective_deviation / 10:,.0f}", f"{share:.2f}"]
        rows.append([*cell, *ours, *paper, agreement.effective(cell, results).words])
    columns = ["problem", "method", "ours", "beside elliptical", "the paper's", "beside elliptical", ""]
    return table(f"Effective samples of {FULL:,} iterations", columns, rows)


def trends(results: Results) -> str:
    """How well the ranks of R01 to R10 agree with the paper's."""
    published, found = published_figure6(), []
    for method in METHODS:
        cells = [Cell(name, method) for name in PROBLEMS if name not in REAL and Cell(name, method) in results]
        if len(cells) < 5:
            continue
        ours = [results[cell].effective.mean for cell in cells]
        rank = spearmanr(ours, [published[cell].effective for cell in cells]).statistic  # pyright: ignore[reportAttributeAccessIssue]
        found.append(f"{method} {rank:.2f}")
    if not found:
        return ""
    return f"Rank correlation of effective samples over R01 to R10 with the paper's: {', '.join(found)}.\n"


def evaluations_table(results: Results) -> str:
    """Evaluations, row by row."""
    published, rows = published_figure6(), []
    for cell, result in results.items():
        paper = f"{published[cell].evaluations:.2f}" if cell in published else ""
        verdict = agreement.evaluations(cell, results).words
        rows.append([*cell, result.evaluations.text(3), paper, verdict, result.computed.text(3)])
    columns = ["problem", "method", "ours", "the paper's", "", "computed"]
    return table("Likelihood evaluations per iteration", columns, rows)


def time_table(results: Results) -> str:
    """Time, and what it buys."""
    published, rows = published_figure6(), []
    for cell, result in results.items():
        paper = f"{published[cell].seconds:,.0f}" if cell in published else ""
        controls = "" if result.controls is None else f"{result.controls.mean:.1f} control variables"
        rate = result.effective_per_second.text(1)
        rows.append([*cell, f"{result.seconds.mean:,.2f}", paper, rate, result.mean_log_likelihood.text(2), controls])
    columns = ["problem", "method", "seconds", "the paper's", "effective samples a second", "mean log-likelihood", ""]
    return table(f"Processor time of {FULL + FULL // 10:,} iterations", columns, rows)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table under a heading."""
    lines = [f"| {' | '.join(row)} |" for row in [columns, ["---"] * len(columns), *rows]]
    return "\n".join([f"## {title}", "", *lines, ""])

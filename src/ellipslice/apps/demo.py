"""`ellipslice demo`: the paper's model of coal-mining explosions.

It is a log-Gaussian Cox process (Section 4.1 of the paper). The log rate of explosions is a Gaussian process, and the
explosions in each of 811 bins of 50 days are Poisson counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

import ellipslice as es
from ellipslice.data import BIN_WIDTH, DAYS_PER_YEAR, CoalMining, coal_mining

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from xarray import DataTree

__all__ = ["Finding", "draw_plot", "find", "intensity", "run", "sample_coal"]

LENGTH_SCALE_DAYS = 13516.0
"""Length scale of the prior: a third of the range of the data, as in the paper."""

TURNING_YEAR = 1890
"""Year that divides the data into two periods for the summary."""

INK, GREY, FAINT = "#1b1f24", "#5f6670", "#c9ced6"
BLUE = "#0072B2"  # one hue in several lightnesses, for colour-blind readers and for print


def run(*, draws: int, warmup: int, thin: int, chains: int, seed: int, out: Path) -> None:
    """Sample, print the convergence report and a summary, and write the draws and a plot to the folder `out`."""
    console = Console(highlight=False, soft_wrap=True)
    out.mkdir(parents=True, exist_ok=True)  # before sampling, so that an error costs no time
    coal = coal_mining()
    console.print(
        f"[bold]Coal-mining explosions, {coal.dates[0]} to {coal.dates[-1]}[/bold]: "
        f"{coal.days.size} events, {coal.counts.size} bins of {BIN_WIDTH} days, {count(chains, 'chain')}"
    )
    tree = sample_coal(coal, draws=draws, warmup=warmup, thin=thin, chains=chains, seed=seed)

    console.print()
    console.print(str(es.diagnostics.check_convergence(tree)), markup=False)
    console.print()
    finding = find(tree, coal)
    console.print(finding.sentences(), markup=False)
    console.print()

    posterior_file, plot_file = out / "coal_posterior.nc", out / "coal_intensity.png"
    tree.to_netcdf(posterior_file)
    console.print(f"draws  {posterior_file}", markup=False)
    try:
        figure = draw_plot(tree, coal, note=how_drawn(tree, thin, seed))
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        console.print(
            "plot   not written, because matplotlib is missing: pip install 'ellipslice[plots]'", markup=False
        )
    else:
        figure.savefig(plot_file)
        console.print(f"plot   {plot_file}", markup=False)


def sample_coal(coal: CoalMining, *, draws: int, warmup: int, thin: int, chains: int, seed: int) -> DataTree:
    """Return draws of f, the log intensity in every bin minus the offset."""
    lag = coal.centres[:, None] - coal.centres
    covariance = np.exp(-0.5 * (lag / LENGTH_SCALE_DAYS) ** 2)
    return es.sample(
        es.likelihoods.Poisson(coal.counts, offset=offset(coal)),
        es.Dense(covariance),
        move=es.moves.EllipticalSlice(),
        draws=draws,
        warmup=warmup,
        thin=thin,
        chains=chains,
        seed=seed,
        dims={"f": ["year"]},
        coords={"year": coal.bin_years},
    )


def offset(coal: CoalMining) -> float:
    """Return the offset of the log intensity: the log of the mean count per bin (m in the paper)."""
    return float(np.log(coal.counts.mean()))


def intensity(tree: DataTree, coal: CoalMining) -> NDArray[np.float64]:
    """Return draws of the intensity in explosions per year, shape (draws of all chains, bins)."""
    f = tree["posterior"]["f"].transpose("chain", "draw", "year").to_numpy()
    return np.exp(f.reshape(-1, f.shape[-1]) + offset(coal)) * (DAYS_PER_YEAR / BIN_WIDTH)


@dataclass(frozen=True)
class Finding:
    """Rates before and after 1890, their ratio, and the year of the steepest fall.

    Each is a tuple: lower end of the 95 % credible interval, median, upper end.
    """

    before: tuple[float, float, float]
    after: tuple[float, float, float]
    ratio: tuple[float, float, float]
    steepest: tuple[float, float, float]

    def sentences(self) -> str:
        """Return the summary as three lines of text."""
        before, after, ratio = (interval(values, digits=1) for values in (self.before, self.after, self.ratio))
        return (
            f"Explosions per year: {before} before {TURNING_YEAR}, {after} after. Ratio: {ratio}.\n"
            f"The rate fell fastest around {interval(self.steepest, digits=0)}.\n"
            "(Posterior medians, with 95 % credible intervals in brackets.)"
        )


def interval(values: tuple[float, float, float], digits: int) -> str:
    """Return median and interval as text, for example "3.0 (2.5 to 3.6)"."""
    lower, middle, upper = (f"{value:.{digits}f}" for value in values)
    return f"{middle} ({lower} to {upper})"


def find(tree: DataTree, coal: CoalMining) -> Finding:
    """Return the summary of the draws: rates before and after 1890, and when the rate fell fastest."""
    rate = intensity(tree, coal)
    early = coal.bin_years < TURNING_YEAR
    before, after = rate[:, early].mean(axis=1), rate[:, ~early].mean(axis=1)
    steepest = coal.bin_years[np.diff(rate, axis=1).argmin(axis=1)]

    def summary(values: NDArray) -> tuple[float, float, float]:
        lower, middle, upper = np.quantile(values, [0.025, 0.5, 0.975])
        return float(lower), float(middle), float(upper)

    return Finding(summary(before), summary(after), summary(before / after), summary(steepest))


def draw_plot(tree: DataTree, coal: CoalMining, note: str = "") -> Figure:
    """Return a plot of the intensity with credible bands, yearly counts and events. Requires matplotlib.

    Parameters
    ----------
    tree : xarray.DataTree
        Draws, from `sample_coal`.
    coal : CoalMining
        The data.
    note : str
        Number of draws and seed, for the caption. Default: "", which omits them.

    Returns
    -------
    matplotlib.figure.Figure
        The plot, not yet saved.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"font.family": "DejaVu Sans", "font.size": 10, "text.color": INK, "axes.labelcolor": INK}):
        figure = Figure(figsize=(10, 6), dpi=200, facecolor="white")
        axes = figure.add_axes((0.045, 0.135, 0.935, 0.695))
        draw_posterior(axes, coal, intensity(tree, coal))
        draw_data(axes, coal)
        draw_scales(axes)
        write_texts(figure, axes, find(tree, coal), note)
    return figure


def draw_posterior(axes: Axes, coal: CoalMining, rate: NDArray) -> None:
    """Draw the median, two credible bands and 25 single draws."""
    years = coal.bin_years
    low95, low50, median, high50, high95 = np.quantile(rate, [0.025, 0.25, 0.5, 0.75, 0.975], axis=0)
    singles = rate[np.linspace(0, len(rate) - 1, 25).astype(int)]
    axes.plot(years, median, color=BLUE, linewidth=2.6, solid_capstyle="round", label="posterior median", zorder=4)
    axes.fill_between(years, low50, high50, color=BLUE, alpha=0.30, linewidth=0, label="50 % credible band")
    axes.fill_between(years, low95, high95, color=BLUE, alpha=0.15, linewidth=0, label="95 % credible band")
    lines = axes.plot(years, singles.T, color=BLUE, alpha=0.25, linewidth=0.6)
    lines[0].set_label(f"{len(singles)} single draws")


def draw_data(axes: Axes, coal: CoalMining) -> None:
    """Draw a dot per calendar year and, under the axis, a tick per explosion."""
    calendar = coal.dates.astype("datetime64[Y]").astype(int) + 1970
    counts = np.bincount(calendar - calendar[0])
    middles = calendar[0] + 0.5 + np.arange(counts.size)
    axes.plot(
        middles, counts, "o", color=GREY, alpha=0.55, markersize=3.6, markeredgewidth=0, label="count in one year"
    )
    heights = np.full(coal.years.size, -0.42)
    axes.plot(
        coal.years, heights, "|", color=INK, alpha=0.85, markersize=17, markeredgewidth=0.7, label="one explosion"
    )


def draw_scales(axes: Axes) -> None:
    """Draw ticks, grid and legend."""
    axes.set(xlim=(1850, 1963), ylim=(-0.78, max(6.4, axes.get_ylim()[1])))
    axes.set_xticks(range(1850, 1961, 10))
    axes.set_yticks(range(int(axes.get_ylim()[1]) + 1))
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["left", "top", "right"]].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.tick_params(axis="y", length=0, labelcolor=GREY)
    axes.tick_params(axis="x", length=4, color=FAINT, labelcolor=INK)
    axes.set_xlabel("year", color=GREY, labelpad=3)
    axes.text(1850, axes.get_ylim()[1], "explosions per year", color=GREY, va="center")
    key = axes.legend(
        loc="upper right", bbox_to_anchor=(1, 1.02), borderaxespad=0, fontsize=9, handlelength=1.6, ncols=2
    )
    key.get_frame().set(facecolor="white", edgecolor="none", alpha=1)
    key.get_lines()[-1].set_markersize(9)  # the tick of an explosion is too tall for the legend


def write_texts(figure: Figure, axes: Axes, finding: Finding, note: str) -> None:
    """Write title, caption and the averages of the two periods."""
    before, after = f"{finding.before[1]:.1f}", f"{finding.after[1]:.1f}"
    title = f"Mine explosions fell from {before} per year before {TURNING_YEAR} to {after} after"
    subtitle = "Explosions with ten or more deaths in British coal mines, 1851–1962"
    model = "Log-Gaussian Cox process of Murray, Adams & MacKay (2010), sampled by ellipslice"
    caption = f"{model}: {note}. Data: Jarrett (1979)." if note else f"{model}. Data: Jarrett (1979)."
    figure.text(0.02, 0.93, title, fontsize=17, fontweight="bold")
    figure.text(0.02, 0.88, subtitle, fontsize=11, color=GREY)
    figure.text(0.02, 0.022, caption, fontsize=7.5, color=GREY)

    top = axes.get_ylim()[1]
    axes.vlines(TURNING_YEAR, 0, top, color=GREY, linewidth=0.8, linestyle=(0, (1, 2.5)), zorder=1)
    for (low, middle, high), side, year in ((finding.before, "right", -0.8), (finding.after, "left", 0.8)):
        label = f"average {middle:.1f}\n95 % interval {low:.1f} to {high:.1f}"
        axes.text(TURNING_YEAR + year, 5.5, label, ha=side, va="center", fontsize=9, linespacing=1.5, color=BLUE)


def how_drawn(tree: DataTree, thin: int, seed: int) -> str:
    """Return number of chains, draws, thinning and seed as text. After Ctrl-C there are fewer draws than requested."""
    sizes = tree["posterior"].sizes
    kept = f", one per {thin} updates" if thin > 1 else ""
    return f"{count(sizes['chain'], 'chain')} of {sizes['draw']:,} draws{kept}, seed {seed}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, for example "1 chain" or "4 chains"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

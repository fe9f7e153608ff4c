"""One currency's history as a step plot, with the joined transactions on it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib import dates as mdates
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kstore_core.plots.axes import DAY_MS, GRID, INK, LINE, QUIET, SPOT, days, plain
from kstore_core.plots.history import Version, step_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw", "largest_move"]

_LATEST = "#9aa5b1"
_LEFT, _RIGHT = 0.075, 0.97
_ZOOM_DAYS = 12


def draw(
    target: Path,
    currency: str,
    steps: Sequence[Version],
    transactions: Sequence[tuple[int, float]],
) -> None:
    """Write the picture to ``target`` as PNG.

    Above, the whole history; below, the days around its largest move.

    Parameters
    ----------
    target : Path
        The file to write.
    currency : str
        Three letters, for the title.
    steps : sequence of VersionedRecordWithHeaders
        The versions of the currency's rate, ascending, with gaps where it had none.
    transactions : sequence of (int, float)
        Time in milliseconds and joined rate of each transaction.
    """
    figure = Figure(figsize=(11, 7.4), dpi=150, facecolor="white")
    FigureCanvasAgg(figure)
    frame = {"hspace": 0.3, "top": 0.86, "bottom": 0.1, "left": _LEFT, "right": _RIGHT}
    whole, zoom = figure.subplots(2, 1, height_ratios=[1.15, 1], gridspec_kw=frame)
    end = max([steps[-1].timestamp + DAY_MS, *(time for time, _ in transactions)])
    _title(
        figure,
        currency,
        len(steps),
        len(transactions),
        years=days(end - steps[0].timestamp) / 365.25,
    )
    for axes in (whole, zoom):
        plain(axes)
        axes.grid(axis="y", color=GRID, linewidth=0.8)
        label = "the rate, version by version"
        axes.plot(*step_line(steps, end), color=LINE, linewidth=1.3, zorder=2, label=label)
    _dots(whole, transactions, s=22, alpha=0.2, linewidths=0, zorder=1.5)
    _dots(zoom, transactions, s=36, linewidths=0.8, edgecolors="white", zorder=3)
    if steps[-1].valid_to is None:
        _latest(whole, zoom, steps[-1].value)
    whole.set_xlim(days(steps[0].timestamp), days(end))
    whole.xaxis.set_major_locator(mdates.YearLocator(3))
    whole.xaxis.set_major_formatter(mdates.DateFormatter("%Y"))
    _zoom(whole, zoom, steps, transactions)
    figure.legend(
        *zoom.get_legend_handles_labels(),
        loc="lower left",
        bbox_to_anchor=(_LEFT - 0.007, 0.005),
        ncols=2,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
        handlelength=1.6,
    )
    figure.savefig(target)


def largest_move(steps: Sequence[Version]) -> int:
    """The start of the version that differs most, relatively, from the one just before it."""
    moves = [
        (abs(after.value / before.value - 1), after.timestamp)
        for before, after in pairwise(steps)
        if before.valid_to == after.timestamp
    ]
    return max(moves)[1] if moves else steps[0].timestamp


def _title(figure: Figure, currency: str, versions: int, joined: int, *, years: float) -> None:
    title = f"{joined:,} {currency} transactions, each on the rate of its own time"
    figure.text(_LEFT, 0.945, title, fontsize=15, fontweight="bold", color=INK)
    below = f"{currency} for one euro: {versions:,} versions in the store, over {int(years)} years"
    figure.text(_LEFT, 0.908, below, fontsize=10.5, color=QUIET)
    source = "Source: European Central Bank, euro reference rates"
    figure.text(_RIGHT, 0.022, source, ha="right", fontsize=8, color=QUIET)


def _dots(axes: Axes, transactions: Sequence[tuple[int, float]], **look: Any) -> None:
    times = [days(time) for time, _ in transactions]
    rates = [rate for _, rate in transactions]
    label = "a transaction, joined as of its own time"
    axes.scatter(times, rates, color=SPOT, label=label, **look)


def _latest(whole: Axes, zoom: Axes, rate: float) -> None:
    """A dashed line at the one rate that a store without history would have."""
    for axes in (whole, zoom):
        axes.axhline(rate, color=_LATEST, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    whole.annotate(
        f"the latest rate, {rate:,.10g}: all that a store without history knows",
        (0.008, rate),
        xycoords=("axes fraction", "data"),
        xytext=(0, 4),
        textcoords="offset points",
        fontsize=8.5,
        color=QUIET,
    )


def _zoom(
    whole: Axes, zoom: Axes, steps: Sequence[Version], transactions: Sequence[tuple[int, float]]
) -> None:
    """Show the days around the largest move, where single steps can be seen."""
    centre = int(days(largest_move(steps)))
    lo, hi = centre - _ZOOM_DAYS, centre + _ZOOM_DAYS
    points = [*((step.timestamp, step.value) for step in steps), *transactions]
    shown = [rate for time, rate in points if lo <= days(time) <= hi]
    pad = (max(shown) - min(shown) or max(shown)) * 0.14
    bottom, top = min(shown) - pad, max(shown) + pad
    zoom.set_xlim(lo, hi)
    zoom.set_ylim(bottom, top)
    zoom.xaxis.set_major_locator(mdates.DayLocator(interval=3))
    zoom.xaxis.set_major_formatter(mdates.DateFormatter("%d %b"))
    day = datetime.date.fromordinal(datetime.date(1970, 1, 1).toordinal() + centre)
    zoom.set_title(
        f"The days around {day.day} {day:%B %Y}, its largest move. "
        "A rate counts from its publication, at 16:00 in Frankfurt, until the next",
        loc="left",
        fontsize=9.5,
        color=INK,
        pad=6,
    )
    box = (lo, bottom, hi - lo, top - bottom)
    whole.indicate_inset(box, edgecolor=INK, linewidth=0.9, alpha=0.9, zorder=5)

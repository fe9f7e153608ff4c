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

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Step", "draw", "largest_move"]

Step = tuple[int, int | None, float]
"""A version of a rate: valid from, valid to (None: still valid), units for one euro."""

_INK, _QUIET, _GRID = "#1f2933", "#7b8794", "#e4e7eb"
_STEP, _DOT, _LATEST = "#1c5d99", "#e4572e", "#9aa5b1"
_LEFT, _RIGHT = 0.075, 0.97
_ZOOM_DAYS = 12
_DAY_MS = 86_400_000


def draw(
    target: Path,
    currency: str,
    steps: Sequence[Step],
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
    steps : sequence of Step
        The versions of the currency's rate, ascending, with gaps where it had none.
    transactions : sequence of (int, float)
        Time in milliseconds and joined rate of each transaction.
    """
    figure = Figure(figsize=(11, 7.4), dpi=150, facecolor="white")
    FigureCanvasAgg(figure)
    frame = {"hspace": 0.3, "top": 0.86, "bottom": 0.1, "left": _LEFT, "right": _RIGHT}
    whole, zoom = figure.subplots(2, 1, height_ratios=[1.15, 1], gridspec_kw=frame)
    end = max([steps[-1][0] + _DAY_MS, *(time for time, _ in transactions)])
    _title(figure, currency, len(steps), len(transactions), years=_days(end - steps[0][0]) / 365.25)
    for axes in (whole, zoom):
        _style(axes)
        _steps(axes, steps, end)
    _dots(whole, transactions, s=22, alpha=0.2, linewidths=0, zorder=1.5)
    _dots(zoom, transactions, s=36, linewidths=0.8, edgecolors="white", zorder=3)
    if steps[-1][1] is None:
        _latest(whole, zoom, steps[-1][2])
    whole.set_xlim(_days(steps[0][0]), _days(end))
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
        labelcolor=_INK,
        handlelength=1.6,
    )
    figure.savefig(target)


def largest_move(steps: Sequence[Step]) -> int:
    """The start of the version that differs most, relatively, from the one just before it."""
    moves = [
        (abs(after[2] / before[2] - 1), after[0])
        for before, after in pairwise(steps)
        if before[1] == after[0]
    ]
    return max(moves)[1] if moves else steps[0][0]


def _title(figure: Figure, currency: str, versions: int, joined: int, *, years: float) -> None:
    title = f"{joined:,} {currency} transactions, each on the rate of its own time"
    figure.text(_LEFT, 0.945, title, fontsize=15, fontweight="bold", color=_INK)
    below = f"{currency} for one euro: {versions:,} versions in the store, over {int(years)} years"
    figure.text(_LEFT, 0.908, below, fontsize=10.5, color=_QUIET)
    source = "Source: European Central Bank, euro reference rates"
    figure.text(_RIGHT, 0.022, source, ha="right", fontsize=8, color=_QUIET)


def _style(axes: Axes) -> None:
    axes.grid(axis="y", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=_QUIET, labelsize=9, length=0, pad=5)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_GRID)


def _steps(axes: Axes, steps: Sequence[Step], end: int) -> None:
    """The versions as horizontal pieces; nothing is drawn where there was no rate."""
    times: list[float] = []
    rates: list[float] = []
    previous_end = steps[0][0]
    for start, until, rate in steps:
        if start != previous_end:
            times.append(_days(start))
            rates.append(float("nan"))
        previous_end = end if until is None else until
        times += [_days(start), _days(previous_end)]
        rates += [rate, rate]
    label = "the rate, version by version"
    axes.plot(times, rates, color=_STEP, linewidth=1.3, zorder=2, label=label)


def _dots(axes: Axes, transactions: Sequence[tuple[int, float]], **look: Any) -> None:
    times = [_days(time) for time, _ in transactions]
    rates = [rate for _, rate in transactions]
    label = "a transaction, joined as of its own time"
    axes.scatter(times, rates, color=_DOT, label=label, **look)


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
        color=_QUIET,
    )


def _zoom(
    whole: Axes, zoom: Axes, steps: Sequence[Step], transactions: Sequence[tuple[int, float]]
) -> None:
    """Show the days around the largest move, where single steps can be seen."""
    centre = int(_days(largest_move(steps)))
    lo, hi = centre - _ZOOM_DAYS, centre + _ZOOM_DAYS
    points = [*((start, rate) for start, _, rate in steps), *transactions]
    shown = [rate for time, rate in points if lo <= _days(time) <= hi]
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
        color=_INK,
        pad=6,
    )
    box = (lo, bottom, hi - lo, top - bottom)
    whole.indicate_inset(box, edgecolor=_INK, linewidth=0.9, alpha=0.9, zorder=5)


def _days(milliseconds: int) -> float:
    """Milliseconds as days since the epoch, matplotlib's own measure of time."""
    return milliseconds / _DAY_MS

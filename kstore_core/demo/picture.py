"""The picture of a currency's history as a line with steps, and of the joined transactions."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib import dates as mdates
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kstore_core.plots.axes import DAY_MS, GRID, INK, LINE, QUIET, SPOT, days, plain
from kstore_core.plots.history import Version, step_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DARK", "LIGHT", "Palette", "draw", "largest_move"]

_ZOOM_DAYS = 12


class Palette(NamedTuple):
    """The colours of a picture."""

    ground: str
    ink: str
    quiet: str
    grid: str
    line: str
    spot: str


LIGHT = Palette("#ffffff", INK, QUIET, GRID, LINE, SPOT)
DARK = Palette("#14191e", "#e6eaee", "#9aa5b1", "#333c45", "#6cb2f0", "#ff8a5c")
"""The colours of the page of :mod:`kstore_core.demo.page` in dark mode."""


def draw(
    target: Path,
    currency: str,
    steps: Sequence[Version],
    transactions: Sequence[tuple[int, float]],
    *,
    palette: Palette = LIGHT,
    narrow: bool = False,
) -> None:
    """Draw a currency's history and its transactions, and write the picture to a PNG file.

    The upper part of the picture shows the whole history. The lower part shows the days around the
    largest change of the rate.

    Parameters
    ----------
    target : Path
        The file to write.
    currency : str
        The code of the currency, for the title.
    steps : sequence of VersionedRecordWithHeaders
        The versions of the currency's rate, in ascending order of time.
    transactions : sequence of (int, float)
        The time in ms and the joined rate of each transaction.
    palette : Palette
        The colours of the picture.
    narrow : bool
        True for a screen of about 500 pixels. The picture then has fewer ticks and shorter lines of
        text.
    """
    _Picture(currency, steps, transactions, palette, narrow).save(target)


@dataclass(slots=True)
class _Picture:
    currency: str
    steps: Sequence[Version]
    transactions: Sequence[tuple[int, float]]
    palette: Palette
    narrow: bool

    def save(self, target: Path) -> None:
        palette, steps = self.palette, self.steps
        size, dpi = ((5, 7.2), 200) if self.narrow else ((11, 7.4), 150)
        figure = Figure(figsize=size, dpi=dpi, facecolor=palette.ground)
        FigureCanvasAgg(figure)
        left, right = (0.11, 0.93) if self.narrow else (0.075, 0.97)
        frame = (
            {"hspace": 0.36, "top": 0.83, "bottom": 0.15}
            if self.narrow
            else {"hspace": 0.3, "top": 0.86, "bottom": 0.1}
        )
        whole, zoom = figure.subplots(
            2, 1, height_ratios=[1.15, 1], gridspec_kw={**frame, "left": left, "right": right}
        )
        end = max([steps[-1].timestamp + DAY_MS, *(time for time, _ in self.transactions)])
        self._title(figure, left, right, years=days(end - steps[0].timestamp) / 365.25)
        for axes in (whole, zoom):
            plain(axes)
            axes.set_facecolor(palette.ground)
            axes.tick_params(colors=palette.quiet)
            axes.spines["bottom"].set_color(palette.grid)
            axes.grid(axis="y", color=palette.grid, linewidth=0.8)
            line = step_line(steps, end)
            axes.plot(*line, color=palette.line, linewidth=1.3, zorder=2, label="rate")
        self._dots(whole, s=22, alpha=0.2, linewidths=0, zorder=1.5)
        self._dots(zoom, s=36, linewidths=0.8, edgecolors=palette.ground, zorder=3)
        if steps[-1].valid_to is None:
            self._latest(whole, zoom, steps[-1].value)
        whole.set_xlim(days(steps[0].timestamp), days(end))
        whole.xaxis.set_major_locator(mdates.YearLocator(6 if self.narrow else 3))
        whole.xaxis.set_major_formatter(mdates.DateFormatter("%Y"))
        self._zoom(whole, zoom)
        figure.legend(
            *zoom.get_legend_handles_labels(),
            loc="lower left",
            bbox_to_anchor=(left - 0.007, 0.045 if self.narrow else 0.005),
            ncols=2,
            frameon=False,
            fontsize=9,
            labelcolor=palette.ink,
            handlelength=1.6,
        )
        figure.savefig(target)

    def _title(self, figure: Figure, left: float, right: float, *, years: float) -> None:
        gap = "\n" if self.narrow else " "
        title = (
            f"{len(self.transactions):,} {self.currency} transactions,{gap}"
            "each on the rate of its own time"
        )
        below = (
            f"{self.currency} for one euro: {len(self.steps):,} versions in the store, "
            f"over {int(years)} years"
        )
        heights, sizes = ((0.915, 0.88), (13, 9)) if self.narrow else ((0.945, 0.908), (15, 10.5))
        figure.text(
            left, heights[0], title, fontsize=sizes[0], fontweight="bold", color=self.palette.ink
        )
        figure.text(left, heights[1], below, fontsize=sizes[1], color=self.palette.quiet)
        source = "Source: European Central Bank, euro reference rates"
        figure.text(right, 0.022, source, ha="right", fontsize=8, color=self.palette.quiet)

    def _dots(self, axes: Axes, **look: Any) -> None:
        times = [days(time) for time, _ in self.transactions]
        rates = [rate for _, rate in self.transactions]
        label = "transaction, joined as of its own time"
        axes.scatter(times, rates, color=self.palette.spot, label=label, **look)

    def _latest(self, whole: Axes, zoom: Axes, rate: float) -> None:
        """Draw a dashed line at the latest rate.

        A store without history would have only this rate.
        """
        for axes in (whole, zoom):
            axes.axhline(
                rate, color=self.palette.quiet, linewidth=1, linestyle=(0, (4, 3)), zorder=1
            )
        rest = "" if self.narrow else ": the only one in a store without history"
        whole.annotate(
            f"latest rate, {rate:,.10g}{rest}",
            (0.008, rate),
            xycoords=("axes fraction", "data"),
            xytext=(0, 4),
            textcoords="offset points",
            fontsize=8.5,
            color=self.palette.quiet,
        )

    def _zoom(self, whole: Axes, zoom: Axes) -> None:
        """Draw the days around the largest change of the rate, so that single steps are visible."""
        centre = int(days(largest_move(self.steps)))
        lo, hi = centre - _ZOOM_DAYS, centre + _ZOOM_DAYS
        points = [*((step.timestamp, step.value) for step in self.steps), *self.transactions]
        inside = [rate for time, rate in points if lo <= days(time) <= hi]
        pad = (max(inside) - min(inside) or max(inside)) * 0.14
        bottom, top = min(inside) - pad, max(inside) + pad
        zoom.set_xlim(lo, hi)
        zoom.set_ylim(bottom, top)
        zoom.xaxis.set_major_locator(mdates.DayLocator(interval=6 if self.narrow else 3))
        zoom.xaxis.set_major_formatter(mdates.DateFormatter("%d %b"))
        day = datetime.date.fromordinal(datetime.date(1970, 1, 1).toordinal() + centre)
        gap = "\n" if self.narrow else ". "
        zoom.set_title(
            f"The days around {day.day} {day:%B %Y}, its largest move{gap}"
            "A rate counts from its publication, at 16:00 in Frankfurt",
            loc="left",
            fontsize=9 if self.narrow else 9.5,
            color=self.palette.ink,
            pad=6,
        )
        box = (lo, bottom, hi - lo, top - bottom)
        whole.indicate_inset(box, edgecolor=self.palette.ink, linewidth=0.9, alpha=0.9, zorder=5)


def largest_move(steps: Sequence[Version]) -> int:
    """Return the time of the largest relative change from a version to the next version."""
    moves = [
        (abs(after.value / before.value - 1), after.timestamp)
        for before, after in pairwise(steps)
        if before.valid_to == after.timestamp
    ]
    return max(moves)[1] if moves else steps[0].timestamp

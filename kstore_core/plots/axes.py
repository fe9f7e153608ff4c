"""The axes and colours of pictures, and the conversion of times to the unit of matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstore_core.errors import EngineUnavailableError
from kstore_core.hints import install

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DAY_MS", "FILL", "GRID", "INK", "LINE", "QUIET", "SPOT", "axes_for", "days", "plain",
           "time_axis"]  # fmt: skip

DAY_MS = 86_400_000
INK, QUIET, GRID = "#1f2933", "#7b8794", "#e4e7eb"
LINE, FILL, SPOT = "#1c5d99", "#a9c8e4", "#e4572e"


def axes_for(axes: Axes | None, height: float) -> Axes:
    """Return the given axes, or the axes of a new figure if none are given.

    Raises
    ------
    EngineUnavailableError
        matplotlib is not installed.
    """
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise EngineUnavailableError(
            f"pictures need matplotlib, which is not installed. Try: {install('plots')}"
        ) from error
    made: Axes = pyplot.subplots(figsize=(9, height), layout="constrained")[1]
    return made


def plain(axes: Axes) -> None:
    """Hide the ticks and the borders of the axes, except the border below them."""
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, labelsize=9, length=0, pad=5)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GRID)


def time_axis(axes: Axes) -> None:
    """Write dates below the axes, at most as many as fit."""
    from matplotlib import dates

    locator = dates.AutoDateLocator(minticks=3, maxticks=9)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))


def days(milliseconds: int) -> float:
    """Convert milliseconds to days, which are the time unit of matplotlib."""
    return milliseconds / DAY_MS

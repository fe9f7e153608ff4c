"""A function that draws the history of a key as a line with a step at each version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol

from kstore_core.plots.axes import GRID, LINE, SPOT, axes_for, days, plain, time_axis
from kstore_core.types import Time, to_millis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Version", "plot_history", "step_line"]

_OPEN_PART = 20


class Version(Protocol):
    """A version from ``store.history(key)``, with the attributes that a drawing needs."""

    @property
    def value(self) -> Any: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def valid_to(self) -> int | None: ...


def plot_history(
    versions: Iterable[Version],
    *,
    label: str | None = None,
    points: Iterable[tuple[Time, float]] = (),
    until: Time | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw the history of a key whose values are numbers.

    The line has a gap for each time in which the key had no value. A version that is still valid is
    drawn up to ``until`` and ends in an arrow.

    Parameters
    ----------
    versions : iterable of VersionedRecord or VersionedRecordWithHeaders
        The result of ``store.history(key)``, in any order.
    label : str, optional
        The name of the line in the legend.
    points : iterable of (int or datetime, float)
        The times and values of dots to draw, for example of rows that were joined with the history.
    until : int or datetime, optional
        The time at which the picture ends. Default: shortly after the last version or point.
    axes : matplotlib Axes, optional
        The axes to draw on and to return. Default: a new figure.

    Raises
    ------
    ValueError
        There are no versions, or ``until`` lies before the last version.
    TypeError
        A value is not a number.
    EngineUnavailableError
        matplotlib is not installed.
    """
    steps = sorted(versions, key=lambda version: version.timestamp)
    if not steps:
        raise ValueError("there are no versions to draw; the history of this key is empty")
    wrong = [step for step in steps if not isinstance(step.value, Real)]
    if wrong:
        raise TypeError(
            f"the version at {wrong[0].timestamp} has a value of the type "
            f"{type(wrong[0].value).__name__}, but only numbers can be drawn"
        )
    dots = [(to_millis(time), value) for time, value in points]
    end = _end(steps, [time for time, _ in dots], until)
    axes = axes_for(axes, 3.2)
    plain(axes)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    times, values = step_line(steps, end)
    (line,) = axes.plot(times, values, color=LINE, linewidth=1.4, label=label)
    if steps[-1].valid_to is None:
        axes.plot(times[-1:], values[-1:], marker=">", markersize=5, color=line.get_color())
    if dots:
        axes.scatter(
            [days(time) for time, _ in dots],
            [value for _, value in dots],
            color=SPOT,
            edgecolors="white",
            linewidths=0.7,
            s=30,
            zorder=3,
            label="joined as of its own time",
        )
    if label is not None or dots:
        axes.legend(frameon=False, fontsize=9)
    if until is not None:
        axes.set_xlim(right=days(end))
    time_axis(axes)
    return axes


def step_line(steps: Sequence[Version], end: int) -> tuple[list[float], list[float]]:
    """Return the times (in days) and the values of the points of a line along the versions.

    If a version ends before the next version begins, the line has a gap.

    Parameters
    ----------
    steps : sequence of Version
        The versions, in ascending order of time.
    end : int
        The time in ms at which the line ends if the last version is still valid.
    """
    times: list[float] = []
    values: list[float] = []
    previous_end = steps[0].timestamp
    for step in steps:
        if step.timestamp != previous_end:
            times.append(days(previous_end))
            values.append(float("nan"))
        previous_end = end if step.valid_to is None else step.valid_to
        times += [days(step.timestamp), days(previous_end)]
        values += [step.value, step.value]
    return times, values


def _end(steps: Sequence[Version], dots: Sequence[int], until: Time | None) -> int:
    last = max(steps[-1].timestamp, *dots, *(step.valid_to or 0 for step in steps))
    if until is None:
        return last + max(1, (last - steps[0].timestamp) // _OPEN_PART)
    end = to_millis(until)
    if end < steps[-1].timestamp:
        raise ValueError(f"until={end} lies before the last version, at {steps[-1].timestamp}")
    return end

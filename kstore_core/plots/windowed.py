"""The drawing of windows or sessions on a time line, with one band for each key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from kstore_core.display.html import cut, short
from kstore_core.plots.axes import FILL, GRID, INK, LINE, QUIET, axes_for, days, plain, time_axis
from kstore_core.types import Windowed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["lanes", "plot_windowed"]

_MOST = 500
_MOST_SEGMENTS = 200
_NAME_CHARACTERS = 24


def plot_windowed(
    items: Iterable[tuple[Windowed[Any], Any]],
    *,
    segment_interval_ms: int | None = None,
    labels: bool = True,
    most: int = _MOST,
    axes: Axes | None = None,
) -> Axes:
    """Draw windows or sessions from their start to their end, with one band for each key.

    Windows of a key that overlap are drawn one above the other. A session of a single record starts
    and ends at the same time, and is drawn as a dot.

    Parameters
    ----------
    items : iterable of (Windowed, value)
        The result of a scan of a window or session store.
    segment_interval_ms : int, optional
        The width of segments in ms, as in ``store.spec.segment_interval_ms``. If it is given, every
        second segment is shaded. The windows of a segment expire together.
    labels : bool
        If True, write each value in a short form next to its window.
    most : int
        The greatest number of windows to draw. If there are more windows, the title shows this
        number.
    axes : matplotlib Axes, optional
        The axes to draw on and to return. Default: a new figure.

    Raises
    ------
    ValueError
        There are no items, ``most`` or ``segment_interval_ms`` is less than 1, or there are too
        many segments to shade.
    EngineUnavailableError
        matplotlib is not installed.
    """
    if most < 1 or (segment_interval_ms is not None and segment_interval_ms < 1):
        wrong = f"{most=}" if most < 1 else f"{segment_interval_ms=}"
        raise ValueError(f"{wrong} must be 1 or more")
    iterator = iter(items)
    found = list(islice(iterator, most))
    if not found:
        raise ValueError("there are no windows to draw; the scan is empty")
    bands: dict[Any, list[tuple[Windowed[Any], Any]]] = {}
    for windowed, value in found:
        bands.setdefault(windowed.key, []).append((windowed, value))
    placed = [(key, inside, lanes([w for w, _ in inside])) for key, inside in bands.items()]
    height = sum(max(at) + 1 for _, _, at in placed)
    axes = axes_for(axes, min(1.2 + 0.35 * height, 12))
    plain(axes)
    bottom, ticks = 0, []
    for key, inside, at in placed:
        for (windowed, value), lane in zip(inside, at, strict=True):
            _draw(axes, windowed, value if labels else None, bottom + lane)
        ticks.append((bottom + max(at) / 2, cut(short(key), _NAME_CHARACTERS)))
        bottom += max(at) + 1
        axes.axhline(bottom - 0.5, color=GRID, linewidth=0.8)
    axes.set_yticks([place for place, _ in ticks], [name for _, name in ticks], parse_math=False)
    axes.set_ylim(bottom - 0.5, -0.5)
    if segment_interval_ms is not None:
        _segments(axes, [windowed for windowed, _ in found], segment_interval_ms)
    if next(iterator, None) is not None:
        axes.set_title(f"the first {most:,}", loc="left", fontsize=9, color=QUIET)
    time_axis(axes)
    return axes


def lanes(spans: Sequence[Windowed[Any]]) -> list[int]:
    """Return a lane number for each span. Spans in the same lane do not overlap.

    Each span gets the lowest possible number.
    """
    ends: list[int] = []
    found = [0] * len(spans)
    for place in sorted(
        range(len(spans)), key=lambda place: (spans[place].start, spans[place].end)
    ):
        span = spans[place]
        free = (lane for lane, end in enumerate(ends) if end <= span.start)
        lane = next(free, len(ends))
        if lane == len(ends):
            ends.append(0)
        ends[lane] = max(span.end, span.start + 1)
        found[place] = lane
    return found


def _draw(axes: Axes, windowed: Windowed[Any], value: Any, lane: int) -> None:
    start, width = days(windowed.start), days(windowed.end - windowed.start)
    if width == 0:
        axes.plot([start], [lane], marker="o", markersize=6, color=LINE)
    else:
        axes.barh(lane, width, 0.72, start, color=FILL, edgecolor=LINE, linewidth=1)
    if value is not None:
        axes.annotate(
            cut(short(value), _NAME_CHARACTERS),
            (start, lane),
            xytext=(7 if width == 0 else 4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=INK,
            clip_on=True,
            annotation_clip=True,
            parse_math=False,
        )


def _segments(axes: Axes, spans: Sequence[Windowed[Any]], interval: int) -> None:
    """Shade every second segment."""
    first = min(span.start for span in spans) // interval
    last = max(span.end for span in spans) // interval
    if last - first >= _MOST_SEGMENTS:
        raise ValueError(
            f"with segment_interval_ms={interval} the picture would show {last - first + 1:,} "
            f"segments, more than {_MOST_SEGMENTS}; draw a shorter time, or leave out "
            "segment_interval_ms"
        )
    for segment in range(first, last + 1):
        if segment % 2:
            begin, end = days(segment * interval), days((segment + 1) * interval)
            axes.axvspan(begin, end, color=GRID, alpha=0.7, linewidth=0, zorder=0)

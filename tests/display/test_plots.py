"""Pictures: what is drawn is what the store holds."""

from __future__ import annotations

import inspect
import re
import sys
from datetime import UTC, datetime, timedelta
from math import isnan

import matplotlib as mpl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core import errors, open_state, serdes, stores
from kstore_core.display import html
from kstore_core.plots import plot_history, plot_windowed
from kstore_core.plots.axes import days
from kstore_core.plots.windowed import lanes
from kstore_core.types import ValueAndTimestamp, VersionedRecord, Windowed
from tests.support.pages import DOCS, blocks

mpl.use("Agg")

DAY = 86_400_000


@pytest.fixture(autouse=True)
def closed():
    """Figures of a test are gone after it."""
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture
def state(tmp_path):
    with open_state(tmp_path / "0_0", engine="memory") as state:
        yield state


def drawn(axes, line=0):
    times, values = axes.lines[line].get_data()
    return [
        (time, None if isnan(value) else value) for time, value in zip(times, values, strict=True)
    ]


def test_a_history_is_drawn_version_by_version_with_its_gap(state):
    rates = state.open(
        stores.versioned_key_value("rates", 10**12, key=serdes.UTF8, value=serdes.FLOAT64)
    )
    rates.put("CHF", 1.5, timestamp=0)
    rates.put("CHF", 1.25, timestamp=DAY)
    rates.delete("CHF", timestamp=2 * DAY)
    rates.put("CHF", 1.0, timestamp=4 * DAY)
    axes = plot_history(rates.history("CHF"), until=10 * DAY)
    steps = [(0, 1.5), (1, 1.5), (1, 1.25), (2, 1.25), (2, None), (4, 1.0), (10, 1.0)]
    assert drawn(axes) == steps
    assert drawn(axes, 1) == [(10, 1.0)]  # the open end
    assert axes.get_legend() is None
    axes.figure.canvas.draw()


def test_what_has_ended_has_no_open_end():
    axes = plot_history([VersionedRecord(1, 0, 5 * DAY)], label="it")
    assert len(axes.lines) == 1
    assert drawn(axes) == [(0, 1), (5, 1)]
    assert plot_history([VersionedRecord(1, 0, DAY)], until=9 * DAY).get_xlim()[1] == 9
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["it"]


def test_points_lie_where_they_were_joined():
    start = datetime(2015, 1, 15, tzinfo=UTC)
    ms = int(start.timestamp() * 1000)
    versions = [VersionedRecord(1.2, ms, None)]
    axes = plot_history(versions, points=[(start + timedelta(days=1), 1.2), (ms, 1.2)])
    assert axes.collections[0].get_offsets().tolist() == [[days(ms) + 1, 1.2], [days(ms), 1.2]]
    assert axes.lines[0].get_data()[0][-1] > days(ms) + 1


def test_a_picture_may_be_drawn_into_axes_that_are_there():
    from matplotlib.figure import Figure

    given = Figure().subplots()
    assert plot_history([VersionedRecord(1, 0, None)], axes=given) is given
    assert plot_windowed([(Windowed("a", 0, 1), 1)], axes=given) is given


@pytest.mark.parametrize(
    ("versions", "more", "error", "text"),
    [
        ([], {}, ValueError, "history of this key is empty"),
        (
            [VersionedRecord("a", 7, None)],
            {},
            TypeError,
            "version at 7 has a value of the type str",
        ),
        ([VersionedRecord(1, 7, None)], {"until": 6}, ValueError, "lies before the last version"),
    ],
)
def test_what_cannot_be_drawn_as_steps_is_refused(versions, more, error, text):
    with pytest.raises(error, match=text):
        plot_history(versions, **more)


def bars(axes):
    """Start, end and lane of every bar."""
    return [
        (bar.get_x(), bar.get_x() + bar.get_width(), bar.get_y() + bar.get_height() / 2)
        for bar in axes.patches
        if bar.get_height() < 1
    ]


def test_windows_stand_in_a_band_for_each_key_over_their_segments(state):
    spec = stores.timestamped_window(
        "w", 30 * DAY, 2 * DAY, segment_interval_ms=3 * DAY, key=serdes.UTF8, value=serdes.INT64
    )
    windows = state.open(spec)
    for key, start in (("$a^$", 0), ("$a^$", DAY), ("b", 4 * DAY)):
        windows.put(key, ValueAndTimestamp(start // DAY, 0), window_start=start)
    items = [(windowed, record.value) for windowed, record in windows.all()]
    axes = plot_windowed(items, segment_interval_ms=spec.segment_interval_ms)
    assert bars(axes) == [(0, 2, 0), (1, 3, 1), (4, 6, 2)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["'$a^$'", "'b'"]
    assert [text.get_text() for text in axes.texts] == ["0", "1", "4"]
    shaded = [patch for patch in axes.patches if patch.get_height() == 1]
    assert [(patch.get_x(), patch.get_width()) for patch in shaded] == [(3, 3)]
    axes.figure.canvas.draw()


def test_a_session_of_one_record_is_a_dot(state):
    sessions = state.open(stores.session("s", 30 * DAY, key=serdes.UTF8, value=serdes.INT64))
    sessions.put(Windowed("a", DAY, DAY), 1)
    sessions.put(Windowed("a", 3 * DAY, 5 * DAY), 2)
    axes = plot_windowed(sessions.fetch("a"), labels=False)
    assert drawn(axes) == [(1, 0)]
    assert bars(axes) == [(3, 5, 0)]
    assert not axes.texts


def test_no_more_is_taken_than_is_drawn():
    items = ((Windowed("a", n * 10, n * 10 + 5), n) for n in range(10**9))
    axes = plot_windowed(items, most=3)
    assert len(bars(axes)) == 3
    assert axes.get_title(loc="left") == "the first 3"
    assert next(items)[1] == 4


@pytest.mark.parametrize(
    ("items", "more", "text"),
    [
        ([], {}, "no windows to draw"),
        ([(Windowed("a", 0, 1), 1)], {"most": 0}, "most=0"),
        ([(Windowed("a", 0, 1), 1)], {"segment_interval_ms": 0}, "segment_interval_ms=0"),
        ([(Windowed("a", 0, 500), 1)], {"segment_interval_ms": 1}, "would show 501 segments"),
    ],
)
def test_what_cannot_be_drawn_on_a_line_is_refused(items, more, text):
    with pytest.raises(ValueError, match=text):
        plot_windowed(items, **more)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=30))
def test_spans_in_one_lane_do_not_overlap_and_no_lane_is_needless(pairs):
    spans = [Windowed("k", start, start + width) for start, width in pairs]
    found = lanes(spans)
    covered = [{*range(span.start, max(span.end, span.start + 1))} for span in spans]
    for lane in set(found):
        inside = [covered[place] for place, at in enumerate(found) if at == lane]
        assert sum(map(len, inside)) == len(set().union(*inside))
    deepest = max((sum(time in there for there in covered) for time in range(80)), default=0)
    assert len(set(found)) == deepest


def test_without_matplotlib_one_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        errors.EngineUnavailableError, match=re.escape("pip install 'matplotlib>=3.8'")
    ):
        plot_history([VersionedRecord(1, 0, None)])


def test_the_page_on_notebooks_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks("notebooks/index.md"):
        exec(compile(block, "docs/notebooks/index.md", "exec"), names)
    assert len(bars(names["axes"])) == 1
    page = (DOCS / "notebooks" / "index.md").read_text(encoding="utf-8")
    for function in (plot_history, plot_windowed):
        for name, parameter in inspect.signature(function).parameters.items():
            assert re.search(rf"`{function.__name__}\([^`]*\b{name}\b", page), name
            if parameter.default not in (parameter.empty, ()):
                assert f"{name}={parameter.default}" in page
    for most in (html.ROWS, html.CELL_CHARACTERS):
        assert f"at most {most}" in page

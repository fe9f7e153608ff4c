"""The stream time of a rescaled store."""

from __future__ import annotations

import pytest

from kstore_core import stores
from kstore_core.maintenance.rescale.expiry import merged_stream_time, reached_stream_time

WINDOW = stores.window("s", 1000, 10, segment_interval_ms=500)


@pytest.mark.parametrize(
    ("shape", "times", "merged"),
    [
        ("key_value", [3, 9], 9),
        ("versioned", [3, 9], 3),
        ("window", [9, 3], 3),
        ("session", [9, None], None),
        ("key_value", [None, 9], None),
        ("window", [], None),
        ("key_value", [], None),
    ],
)
def test_key_value_stores_get_the_greatest_stream_time_and_others_the_least(
    shape: str, times: list[int | None], merged: int | None
) -> None:
    assert merged_stream_time(shape, times) == merged


@pytest.mark.parametrize(
    ("stream_time", "earliest", "latest", "reached"),
    [
        (600, None, 0, (600, False)),
        (-1, None, 0, (-1, False)),
        (600, 0, 600, (600, False)),
        (600, 1, 1400, (1000, False)),
        (600, 0, 1400, (1000, True)),
        (600, 0, 5000, (5000, True)),
        (600, 4500, 5000, (5000, False)),
    ],
)
def test_a_store_reaches_at_least_the_beginning_of_its_newest_segment(
    stream_time: int, earliest: int | None, latest: int, reached: tuple[int, bool]
) -> None:
    assert reached_stream_time(WINDOW, stream_time, earliest, latest) == reached

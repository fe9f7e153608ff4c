import struct

import pytest

from kstore_core.demo.picture import DARK, draw, largest_move
from kstore_core.types import VersionedRecord

DAY = 86_400_000


def versions(steps):
    return [VersionedRecord(value, start, end) for start, end, value in steps]


def size(png):
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])


@pytest.mark.parametrize(
    "steps",
    [
        [(0, DAY, 1.5), (DAY, 2 * DAY, 1.0), (2 * DAY, None, 1.25)],
        [(0, DAY, 1.5), (300 * DAY, 400 * DAY, 1.0)],
        [(0, None, 1.5)],
    ],
    ids=["moving", "with a gap, ended", "one version"],
)
def test_draw_writes_a_png(tmp_path, steps):
    target = tmp_path / "rates.png"
    draw(target, "AAA", versions(steps), [(steps[0][0] + 1000, steps[0][2])])
    assert size(target.read_bytes()) == (1650, 1110)


def test_a_narrow_dark_picture_is_another_one(tmp_path):
    target = tmp_path / "rates.png"
    draw(target, "AAA", versions([(0, None, 1.5)]), [(1000, 1.5)], palette=DARK, narrow=True)
    assert size(target.read_bytes()) == (1000, 1440)


def test_draw_without_transactions(tmp_path):
    draw(tmp_path / "rates.png", "AAA", versions([(0, None, 1.5)]), [])
    assert (tmp_path / "rates.png").exists()


def test_the_largest_move_is_relative_and_not_over_a_gap():
    steps = versions([(0, 1, 100.0), (1, 2, 104.0), (2, 3, 1.0), (5, 6, 50.0), (6, 7, 49.0)])
    assert largest_move(steps) == 2
    assert largest_move(steps[2:]) == 6

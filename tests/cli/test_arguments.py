import click
import pytest

from kstore_core import serdes
from kstore_core.cli.parameters.values import DURATION, TIME, key_bytes


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("500ms", 500), ("60s", 60_000), ("5m", 300_000), ("12h", 43_200_000), ("2d", 172_800_000),
     ("250", 250), ("0", 0)],
)  # fmt: skip
def test_durations(text, milliseconds):
    assert DURATION.convert(text, None, None) == milliseconds


@pytest.mark.parametrize("text", ["", "s", "1.5s", "-1s", "1 week", "60S"])
def test_what_is_no_duration(text):
    with pytest.raises(click.BadParameter, match="not a duration"):
        DURATION.convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1421334000000", 1_421_334_000_000),
        ("-5", -5),
        ("2015-01-15T15:00Z", 1_421_334_000_000),
        ("2015-01-15T16:00+01:00", 1_421_334_000_000),
        ("2015-01-15 15:00:00.001+00:00", 1_421_334_000_001),
    ],
)
def test_times(text, milliseconds):
    assert TIME.convert(text, None, None) == milliseconds


def test_a_time_without_an_offset_is_refused():
    with pytest.raises(click.BadParameter, match="no offset"):
        TIME.convert("2015-01-15T15:00", None, None)


@pytest.mark.parametrize("text", ["yesterday", "", "2015-13-01T00:00Z"])
def test_what_is_no_time(text):
    with pytest.raises(click.BadParameter, match="not a time"):
        TIME.convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "serde", "stored"),
    [
        ("o-1", serdes.BYTES, b"o-1"),
        ("é", serdes.UTF8, "é".encode()),
        ("7", serdes.INT32, b"\0\0\0\7"),
        ("-1", serdes.INT64, b"\xff" * 8),
        ("1.5", serdes.FLOAT64, b"\x3f\xf8" + bytes(6)),
        ('{"a": 1}', serdes.JSON, b'{"a":1}'),
    ],
)
def test_a_key_is_text_as_the_serde_reads_it(text, serde, stored):
    assert key_bytes(text, serde, is_hex=False) == stored


@pytest.mark.parametrize("text", ["00ff", "0x00ff", "00 FF"])
def test_a_key_in_hex(text):
    assert key_bytes(text, serdes.UTF8, is_hex=True) == b"\x00\xff"


@pytest.mark.parametrize(
    ("text", "serde", "is_hex"),
    [
        ("x", serdes.INT32, False),
        (str(2**40), serdes.INT32, False),
        ("x", serdes.FLOAT64, False),
        ("{", serdes.JSON, False),
        ("abc", serdes.BYTES, True),
    ],
)
def test_what_is_no_key(text, serde, is_hex):
    with pytest.raises(click.BadParameter, match="is not"):
        key_bytes(text, serde, is_hex=is_hex)

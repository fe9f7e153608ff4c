"""Every call on docs/formats.md gives what stands beside it, and reads back."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kstore_core import codec
from kstore_core.errors import FormatError
from tests.support.places import DOCS

PAGE = DOCS / "formats.md"
ROW = re.compile(r"^\| `([a-z_.0-9]+\(.*\))` \| (.*?) ?\|$", re.MULTILINE)
FOUND = ROW.findall(PAGE.read_text(encoding="utf-8"))
ELSEWHERE = {
    "encode_column",
    "encode_compacted_batch",  # these on docs/changelogs.md
    "encode_record_batch",
    "encode_record_columns",
}
NAMES = {name: getattr(codec, name) for name in codec.__all__}
HEX = re.compile(r"(?:[0-9a-f]{2} ?|\\\| ?)*")


def is_hex(shown: str) -> bool:
    return HEX.fullmatch(shown.strip("`")) is not None


BYTES = [(call, shown) for call, shown in FOUND if is_hex(shown)]
RESULTS = [row for row in FOUND if row not in BYTES and row[1].startswith("`")]
REASONS = [row for row in FOUND if row not in BYTES and row not in RESULTS]


def evaluate(text: str) -> Any:
    return eval(text, dict(NAMES))


@pytest.mark.parametrize(("call", "shown"), BYTES)
def test_bytes(call: str, shown: str) -> None:
    data = bytes.fromhex(re.sub(r"[`|\\]", "", shown))
    assert evaluate(call) == data
    name, arguments = call.split("(", 1)
    given = evaluate(f"[{arguments.removesuffix(')').replace('seq=', '')}]")
    if name in ("encode_headers", "encode_varint", "encode_varlong", "encode_unsigned_varint"):
        read = NAMES[name.replace("encode", "decode")](data)
        assert read == (given[0] if name == "encode_headers" else (given[0], len(data)))
    elif name.startswith("encode"):
        assert [part or None for part in NAMES[name.replace("encode", "decode")](data)] == [
            part or None for part in given
        ]
    elif "key" in name:
        assert list(NAMES[f"split_{name}"](data))[: len(given)] == given


@pytest.mark.parametrize(("call", "shown"), RESULTS)
def test_results(call: str, shown: str) -> None:
    assert evaluate(call) == evaluate(shown.strip("`"))


@pytest.mark.parametrize(("call", "reason"), REASONS)
def test_refusals(call: str, reason: str) -> None:
    with pytest.raises(FormatError, match=re.escape(reason)):
        evaluate(call)


def test_the_page_shows_every_format() -> None:
    """At least one worked example for every function that makes bytes."""
    shown = " ".join(call for call, _ in BYTES)
    for name in codec.__all__:
        makes = name.startswith(("encode", "convert")) or name.endswith("_key")
        if makes and not name.startswith("split") and name not in ELSEWHERE:
            assert f"{name}(" in shown, name
    assert len(RESULTS) > 5
    assert len(REASONS) > 10

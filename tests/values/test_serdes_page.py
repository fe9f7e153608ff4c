"""docs/serdes.md: every call gives the bytes beside it, and the table names every serde."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from kstore_core import serdes
from kstore_core.serdes.types import SCALARS
from tests.support.places import DOCS

PAGE = (DOCS / "serdes.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(.*\.encode\(.*\))` \| `([0-9a-f ]+)` \|$", PAGE, re.MULTILINE)
NAMES = {
    **{name: getattr(serdes, name) for name in serdes.__all__},
    "UTC": UTC,
    "date": date,
    "datetime": datetime,
    "Decimal": Decimal,
}


@pytest.mark.parametrize(("call", "shown"), ROWS)
def test_bytes(call: str, shown: str) -> None:
    assert eval(call, NAMES).hex(" ") == shown


def test_the_page_names_every_serde_and_type() -> None:
    assert len(ROWS) == 10
    for name, serde in serdes.BUILT_IN.items():
        assert f"`{name}`" in PAGE
        assert f"`{serde.name.upper()}`" in PAGE
    for name in (*SCALARS, "timestamp"):
        assert f"`{name}`" in PAGE
    sizes = [len(f("struct<n:int>").encode({"n": 7})) for f in (serdes.json_row, serdes.arrow_row)]
    assert f"| {sizes[0]} bytes | {sizes[1]} bytes |" in PAGE

"""The serde of dataclasses and of msgspec's classes."""

from __future__ import annotations

import datetime as dt
import pickle
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypedDict

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core import open_state, serdes, stores
from kstore_core.errors import FormatError, SpecError


@dataclass
class Place:
    city: str
    zip_code: int | None = None


@dataclass
class Order:
    sku: str
    count: int
    day: dt.date
    price: float = 0.0
    at: dt.datetime | None = None
    place: Place | None = None
    tags: list[str] = field(default_factory=list)
    rates: dict[str, float] = field(default_factory=dict)
    raw: bytes = b""


class Struct(msgspec.Struct):
    sku: str
    count: int = 0


class Typed(TypedDict):
    sku: str


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
FINITE = st.floats(allow_nan=False, allow_infinity=False)
ORDERS = st.builds(
    Order,
    sku=TEXT,
    count=st.integers(-(2**63), 2**63 - 1),
    day=st.dates(),
    price=FINITE,
    at=st.none() | st.datetimes(timezones=st.just(dt.UTC)),
    place=st.none() | st.builds(Place, TEXT, st.none() | st.integers(0, 99999)),
    tags=st.lists(TEXT, max_size=3),
    rates=st.dictionaries(TEXT, FINITE, max_size=3),
    raw=st.binary(max_size=20),
)


@pytest.mark.parametrize("form", ["json", "msgpack"])
@given(order=ORDERS)
def test_what_is_written_is_read(form: str, order: Order) -> None:
    serde = serdes.record(Order, form)
    assert serde.decode(serde.encode(order)) == order


@pytest.mark.parametrize(
    ("cls", "value"),
    [(Order, Order("a", 1, dt.date(2026, 1, 31))), (Struct, Struct("a", 1)), (Typed, {"sku": "a"})],
)
def test_a_store_and_its_table(cls: Any, value: Any) -> None:
    serde = serdes.record(cls)
    with open_state("state/0_0", engine="memory") as state:
        store = state.open(stores.key_value("orders", value=serde))
        store.put(b"k", value)
        assert store.get(b"k") == value
        table = store.all().to_arrow()
        assert table["value"].type == serde.arrow_type
        row = table["value"].to_pylist()[0]
        assert row["sku"] == "a"
        store.put_arrow(pa.table({"key": [b"l"], "value": pa.array([row], serde.arrow_type)}))
        assert store.get(b"l") == value


def test_the_arrow_type() -> None:
    kind = serdes.record(Order).arrow_type
    assert kind.field("count").type == pa.int64()
    assert kind.field("at").type == pa.timestamp("us", tz="UTC")
    assert kind.field("place").type == pa.struct([("city", pa.string()), ("zip_code", pa.int64())])

    @dataclass
    class Money:
        amount: Decimal

    with pytest.raises(SpecError, match="'DecimalType' has no Arrow type"):
        _ = serdes.record(Money).arrow_type


def test_refusals() -> None:
    serde = serdes.record(Struct)
    with pytest.raises(TypeError, match="takes Struct, not Place"):
        serde.encode(Place("x"))
    with pytest.raises(FormatError, match="not json of Struct"):
        serde.decode(b'{"sku": 7}')
    with pytest.raises(SpecError, match="form must be"):
        serdes.record(Struct, "xml")


def test_pickles_and_equality() -> None:
    serde = serdes.record(Order, "msgpack")
    assert pickle.loads(pickle.dumps(serde)) == serde
    assert len({serde, serdes.record(Order, "msgpack"), serdes.record(Order)}) == 2
    assert repr(serde) == "serdes.record(Order, 'msgpack')"

"""The key-value formats, so that one test runs on each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kstore_core import ValueAndTimestamp, ValueTimestampHeaders, stores
from kstore_core.stores import StoreSpec

TIME = 1_700_000_000_000
PAIRS = [("trace", b"1"), ("trace", None)]


@dataclass(frozen=True)
class Kind:
    """One format: how its stores are described, and what their values look like."""

    name: str
    factory: Callable[..., StoreSpec]
    wrap: Callable[[Any], Any]
    """What a get gives for a bare value."""
    beside: dict[str, Any]
    """What is passed beside a bare value for the same."""

    def __str__(self) -> str:
        return self.name


KINDS = [
    Kind("plain", stores.key_value, lambda value: value, {}),
    Kind(
        "timestamped",
        stores.timestamped_key_value,
        lambda value: ValueAndTimestamp(value, TIME),
        {"timestamp": TIME},
    ),
    Kind(
        "headers",
        stores.timestamped_key_value_with_headers,
        lambda value: ValueTimestampHeaders(value, TIME, PAIRS),
        {"timestamp": TIME, "headers": PAIRS},
    ),
]


class Tagged:
    """A serde of text that adds a header for each value and shows these headers when it reads."""

    name = "tagged"
    arrow_type = pa.string()

    def serialize(self, value, headers):
        headers.add("wrote", value.encode())
        return value.encode()

    def deserialize(self, data, headers):
        tags = b",".join(header.value for header in headers.all("wrote"))
        return f"{data.decode()}<{tags.decode()}>"

"""Rows and values of the golden directories."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from kstore_core import ValueAndTimestamp, ValueTimestampHeaders
from kstore_core.engine import Database
from tests.support.golden import unhex, unhex_headers

CHANGELOG = "peer-app-{}-changelog"


def value_of(line: dict[str, Any]) -> Any:
    """A manifest's value: in a content line it is nested, in an operation it is not."""
    nested = line["value"] if isinstance(line["value"], dict) else line
    data = unhex(nested["value"])
    if data is None:
        return None
    if "headers" in nested:
        return ValueTimestampHeaders(data, nested["timestamp"], unhex_headers(nested["headers"]))
    return ValueAndTimestamp(data, nested["timestamp"]) if "timestamp" in nested else data


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def rows(database: Database, family: str) -> list[tuple[bytes, bytes]]:
    return [
        row
        for keys, values in database.namespace(family).scan()
        for row in zip(keys, values, strict=True)
    ]

"""The golden data: recorded from Kafka Streams itself. Bytes are hex, headers are pairs."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.places import GOLDEN


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def trace(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A trace's configuration and its operations."""
    config, *operations = lines(GOLDEN / "traces" / f"{name}.jsonl")
    return config, operations


def traces(prefix: str) -> list[str]:
    return sorted(path.stem for path in (GOLDEN / "traces").glob(f"{prefix}*.jsonl"))


def manifest(name: str) -> dict[str, list[dict[str, Any]]]:
    """A directory's manifest, by kind of line."""
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for line in lines(GOLDEN / "dirs" / f"{name}.manifest.jsonl"):
        by_kind.setdefault(line["line"], []).append(line)
    return by_kind


def unpack(name: str, target: Path) -> Path:
    """The task directory ``name``, unpacked below ``target``."""
    with tarfile.open(GOLDEN / "dirs" / f"{name}.tar.gz") as archive:
        archive.extractall(target, filter="data")
    return target / name


def raw_rows(name: str, family: str) -> list[tuple[bytes, bytes]]:
    """Every row of a column family, in key order."""
    return sorted(
        (bytes.fromhex(line["key"]), bytes.fromhex(line["value"]))
        for line in manifest(name)["raw"]
        if line["cf"] == family
    )


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def unhex_headers(pairs: list[list[str | None]]) -> list[tuple[str, bytes | None]]:
    return [(key, unhex(value)) for key, value in pairs]  # type: ignore[misc]

"""The restore of a log in Arrow columns: 1,000 records at a time, and all at once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kstore_core import stores
from kstore_core.restore import restore

from .data import HEADERS, POOL, VALUES, Run, keys
from .key_value import START_MS as KEY_VALUE_START_MS
from .versioned import HISTORY, START_MS, STEP_MS, VERSIONS

__all__ = ["run"]

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def run(run: Run) -> None:
    """Measure the restore of each kind of store."""
    count, each = run.count, range(run.count)
    values = pa.array([VALUES[i & (POOL - 1)] for i in each], pa.binary())
    key = pa.array(keys(0, count), pa.binary())
    times = pa.array([KEY_VALUE_START_MS + i for i in each], pa.int64())
    pairs = [[{"key": key, "value": value} for key, value in headers] for headers in HEADERS]
    headers = pa.array([pairs[i & (POOL - 1)] for i in each], _HEADERS)
    none = pa.array([[]] * count, _HEADERS)
    distinct = count // VERSIONS
    version_key = pa.array(keys(0, distinct) * VERSIONS, pa.binary())
    version_times = pa.array(
        [
            START_MS + version * STEP_MS + i * STEP_MS // distinct
            for version in range(VERSIONS)
            for i in range(distinct)
        ],
        pa.int64(),
    )
    logs: list[tuple[str, Any, tuple[Any, ...]]] = [
        (
            "headers",
            stores.timestamped_key_value_with_headers("restored"),
            (key, values, times, headers),
        ),
        ("plain", stores.key_value("restored"), (key, values, times, none)),
        (
            "versioned",
            stores.versioned_key_value("restored", **HISTORY),
            (version_key, values[: len(version_key)], version_times, none[: len(version_key)]),
        ),
    ]
    for kind, spec, columns in logs:
        for size, op in ((1000, "restore_batches_of_1000"), (count, "restore_at_once")):
            with run.state() as state:
                store = state.open(spec)
                with run.timed(f"restore_{kind}", op, count):
                    for at in range(0, count, size):
                        restore(store, *(column.slice(at, size) for column in columns))
                    state.commit()

"""Reading all that a store holds, in a process that may die of it.

``python -m tests.damage.reading`` reads requests, one a line as JSON, and answers each with a line.
"""

from __future__ import annotations

import hashlib
import json
import sys
import traceback
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from kstore_core import open_state
from kstore_core.changelog import FileChangelog
from kstore_core.errors import KStoreError


def digest(state: Any, store: Any) -> str:
    """A digest of all rows, read in every way that there is, and of what goes with them.

    Raises
    ------
    AssertionError
        Two ways of reading do not agree.
    """
    shape = store.spec.shape
    rows = rows_of(store)
    assert rows == rows_of(store, reverse=True)[::-1]
    seen = hashlib.sha1(repr(rows).encode())
    keys = list(dict.fromkeys(row[0] for row in rows))
    if shape == "versioned":
        for key in keys:
            seen.update(repr([_plain(key, one) for one in store.history(key)]).encode())
    elif shape == "key_value":
        assert rows == [_plain(key, store.get(key)) for key in keys]
        assert rows == [_plain(*pair) for pair in zip(keys, store.get_many(keys), strict=True)]
    elif shape == "window":
        found = [
            (key, start, _plain(key, value)[1:])
            for key in keys
            for start, value in store.fetch(key, None, None)
        ]
        assert sorted(found) == sorted((key, times[0], rest) for key, times, *rest in rows)
    else:
        assert sorted(rows) == sorted(
            _plain(windowed, value) for key in keys for windowed, value in store.fetch(key)
        )
    about = [sorted(state.offsets(store.spec.name).items()), store.position]
    if shape == "versioned":  # that of windows is at least when the newest segment begins
        about.append(store.stream_time)
    seen.update(repr(about).encode())
    return f"{len(rows)}-{seen.hexdigest()[:16]}"


def rows_of(store: Any, *, reverse: bool = False) -> list[list[Any]]:
    """All rows of a store as built-in values."""
    in_sessions = store.spec.shape == "session"
    scan = partial(store.fetch_range, None, None) if in_sessions else store.all
    return [_plain(key, value) for key, value in scan(reverse=reverse)]


def _plain(key: Any, value: Any) -> list[Any]:
    """A row as built-in values, its headers decoded."""
    row = [key.key, (key.start, key.end)] if hasattr(key, "start") else [key]
    if isinstance(value, bytes):
        return [*row, value]
    for name in ("value", "aggregation", "timestamp", "valid_to"):
        if hasattr(value, name):
            row.append(getattr(value, name))
    if hasattr(value, "headers"):
        row.append([tuple(header) for header in value.headers])
    return row


def read_store(kind: str, engine: str, path: str, read_only: bool) -> str:
    from tests.damage.homes import SPECS

    with open_state(path, engine=engine, read_only=read_only) as state:
        return digest(state, state.open(SPECS[kind]))


def read_log(path: str, read_only: bool) -> str:
    """Offsets and contents of all records."""
    root = Path(path)
    with FileChangelog(root.parent, "t", 0, read_only=read_only) as log:
        rows = [
            repr((record.offset, record.timestamp, record.key, record.value, [*record.headers]))
            for columns in log.read()
            for record in columns
        ]
        return "\n".join([str(log.high_watermark), *rows])


def answer(request: dict[str, Any]) -> dict[str, str]:
    try:
        if request["kind"] == "log":
            return {"read": read_log(request["path"], request["read_only"])}
        return {
            "read": read_store(
                request["kind"], request["engine"], request["path"], request["read_only"]
            )
        }
    except AssertionError:
        return {"read": "two ways of reading do not agree"}
    except KStoreError as error:
        return {"error": type(error).__name__, "message": str(error)}
    except BaseException:  # noqa: BLE001 - what is no error of kstore is a finding of the test
        return {"untyped": traceback.format_exc()}


def main() -> None:
    warnings.simplefilter("error")
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()

"""Applications with n tasks, and what their stores answer, without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kstore_core import open_state
from kstore_core.codec import partition
from kstore_core.discovery.registry import make_engine
from kstore_core.keys import rows_of
from kstore_core.maintenance.migrate.contents import opened
from kstore_core.spec import StoreSpec
from tests.spark.rescale.runs import Log

Row = tuple[bytes, bytes]


def write(path: Path, tasks: int, engine: str, *logs: tuple[StoreSpec, Log]) -> Path:
    """An application whose tasks have the records of their keys."""
    for number in range(tasks):
        with open_state(path / f"0_{number}", engine=engine) as state:
            for spec, log in logs:
                put(state.open(spec), [r for r in log if partition(r["key"], tasks) == number])
    return path


def put(store: Any, log: Log) -> None:
    spec = store.spec
    columns: list[Any] = [[r[name] for r in log] for name in ("key", "value")]
    if spec.shape == "window":
        columns.append([r["start"] for r in log])
    if spec.shape == "session":
        columns += [[r["start"] for r in log], [r["end"] for r in log]]
    elif spec.format.timestamped or spec.format.versioned:
        columns.append([r["timestamp"] for r in log])
    headers = [[(h["key"], h["value"]) for h in r["headers"]] for r in log]
    store.put_many(*columns, **({"headers": headers} if spec.format.headers else {}))


def answers(path: Path, spec: StoreSpec, keys: Iterable[bytes]) -> list[str]:
    """What the stores of all tasks answer, in the form of :func:`runs.model`."""
    found = []
    for task in tasks_of(path):
        with open_state(task, read_only=True) as state:
            store = state.open(spec)
            if spec.shape == "versioned":
                found += [
                    {"key": key, "value": version.value, **_about(spec, version)}
                    for key in keys
                    for version in store.history(key)
                ]
                continue
            scan = store.fetch_range(None, None) if spec.shape == "session" else store.all()
            for key, value in scan:
                name = {"key": key}
                if spec.shape in ("window", "session"):
                    name = {
                        "key": key.key,
                        f"{spec.shape}_start": key.start,
                        f"{spec.shape}_end": key.end,
                    }
                plain = not (spec.format.timestamped or spec.format.headers)
                data = value if plain else getattr(value, "value", None)
                data = value.aggregation if hasattr(value, "aggregation") else data
                found.append({**name, "value": data, **_about(spec, value)})
    return sorted(repr({**row, "partition": None}) for row in found)


def _about(spec: StoreSpec, value: Any) -> dict[str, Any]:
    about: dict[str, Any] = {}
    if spec.format.timestamped or spec.format.versioned:
        about["timestamp"] = value.timestamp
    if spec.format.versioned:
        about["valid_to"] = value.valid_to
    if spec.format.headers:
        about["headers"] = [{"key": h.key, "value": h.value} for h in value.headers]
    return about


def tasks_of(path: Path) -> list[Path]:
    """The task directories in the order of their numbers; nothing else is there."""
    found = sorted(path.glob("*_*"), key=lambda task: int(task.name.rpartition("_")[2]))
    assert {p.name for p in path.iterdir()} - {".lock"} == {task.name for task in found}
    return found


def rows(path: Path, spec: StoreSpec, engine: str) -> list[Row]:
    """The stored rows of all tasks as bytes; each is in the task of its key."""
    found: list[Row] = []
    tasks = tasks_of(path)
    for number, task in enumerate(tasks):
        with opened(make_engine(engine), task, spec) as contents:
            for keys, values in contents.rows():
                for key, value in zip(keys, values, strict=True):
                    assert partition(user_key(spec, key), len(tasks)) == number
                    found.append((key, value))
    assert len({key for key, _ in found}) == len(found)
    return sorted(found)


def user_key(spec: StoreSpec, key: bytes) -> bytes:
    if spec.shape == "key_value":
        return key
    if spec.shape == "versioned":
        return key[8:]
    split = rows_of(spec.shape, time_ordered=spec.time_ordered, indexed=spec.indexed).split
    return split(key)[0]

"""The class ``Subject``, which defines the changes and the model of a store of a killed writer.

The contents of a store are a dict from places to items. A place identifies what one write changes.
A place is a key, or a key with the time of a version, or a key with a window or session.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from kstore_core.clock import segment_id
from kstore_core.spec import StoreSpec
from kstore_core.testing.kinds import WINDOW_SIZE_MS, Kind
from kstore_core.testing.models import KeyValueModel, SessionModel, VersionedModel, WindowModel
from kstore_core.types import Windowed

__all__ = ["Change", "Contents", "Subject"]

RETENTION_MS, INTERVAL_MS = 30, 7
KEYS = tuple(b"k%d" % number for number in range(12))

Contents = dict[Any, Any]
"""The items of a store by place. In a store with duplicates, an item is a tuple of all values."""


class Change(NamedTuple):
    """One write. If ``data`` is None, the write deletes. The ``time`` of a session is its end."""

    key: bytes
    data: bytes | None
    time: int
    headers: tuple[tuple[str, bytes | None], ...]
    is_first: bool
    """True if the change is a put that has an effect only if the key is absent."""


@dataclass(frozen=True)
class Subject:
    """A store whose writers are killed while they write.

    Attributes
    ----------
    name : str
    kind : Kind
    duplicates : bool
        True if the store is a window store that retains duplicates.
    """

    name: str
    kind: Kind
    duplicates: bool = False

    def spec(self, *, cached: bool) -> StoreSpec:
        """Return the spec of the store. If ``cached``, its cache is too small for all rows."""
        if self.kind.shape == "key_value":
            made = self.kind.spec(self.name)
        elif self.duplicates:
            made = self.kind.spec(self.name, RETENTION_MS, INTERVAL_MS, duplicates=True)
        else:
            made = self.kind.spec(self.name, RETENTION_MS, INTERVAL_MS)
        return made.with_cache(600) if cached else made

    def changes(self, seed: int, commit: int) -> Iterator[Change]:
        """Yield the changes of a commit, which depend only on the seed and the commit's number.

        The first change is never late, so that every commit advances the position.
        """
        generator = random.Random(f"{seed} {self.name} {commit}")
        for number in range(generator.randint(1, 12)):
            size = 300 if generator.random() < 0.05 else generator.randrange(30)
            data = b"%d-%d " % (commit, number) + b"v" * size
            yield Change(
                generator.choice(KEYS),
                None if number and generator.random() < 0.25 else data,
                max(0, commit // 2 + generator.randrange(-45 if number else 0, 12)),
                (("commit", b"%d" % commit), ("none", None))[: generator.randrange(3)],
                number > 0 and generator.random() < 0.2,
            )

    def place(self, change: Change) -> Any:
        """Return the place of a change."""
        key, _, time, _, _ = change
        if self.kind.shape == "key_value":
            return key
        return (key, time // 2, time) if self.kind.shape == "session" else (key, time)

    def item(self, change: Change) -> Any:
        """Return the item that a change writes, or None if the change deletes."""
        if change.data is None:
            return None
        record = self.kind.record(change.data, change.time, change.headers)
        return (record.data, record.headers) if self.kind.shape == "versioned" else record

    # The store.

    def write(self, store: Any, change: Change) -> None:
        """Make a change in the store."""
        key, data, time, headers, is_first = change
        if self.kind.shape == "versioned":
            stored = headers if self.kind.format.headers and data is not None else ()
            store.put(key, data, timestamp=time, headers=stored)
            return
        value = self.kind.value(self.item(change))
        if self.kind.shape == "window":
            store.put(key, value, window_start=time)
        elif self.kind.shape == "session":
            store.put(Windowed(*self.place(change)), value)
        elif value is None:
            store.delete(key)
        elif is_first:
            store.put_if_absent(key, value)
        else:
            store.put(key, value)

    def found(self, store: Any) -> Contents:
        """Return the contents of the store, read by scans and by lookups.

        Raises
        ------
        AssertionError
            A scan and a lookup return different results.
        """
        read = self.kind.read
        if self.kind.shape == "versioned":
            latest = {key: _version(record) for key, record in store.all()}
            held = {
                (key, record.timestamp): _version(record)
                for key in KEYS
                for record in store.history(key)
            }
            ends = {place[0]: item for place, item in held.items() if item[1] is None}
            assert latest == ends, "a scan returns the latest versions in the histories"
            return held
        if self.kind.shape == "key_value":
            rows = [(key, read(value)) for key, value in store.all()]
            by_key = [(key, read(store.get(key))) for key in KEYS]
            assert rows == sorted(item for item in by_key if item[1] is not None), (
                "a scan returns the same rows as lookups, in order"
            )
            return dict(rows)
        everyone = store.fetch_range(None, None)
        rows = [(self._windowed(w), read(value)) for w, value in everyone]
        by_key = [
            (self._windowed(w), read(value)) for key in KEYS for w, value in self._of(store, key)
        ]
        assert sorted(by_key, key=repr) == sorted(rows, key=repr), (
            "a scan of all keys returns the rows that scans of each key return"
        )
        return self._gathered(rows)

    def _of(self, store: Any, key: bytes) -> Any:
        return store.fetch(key) if self.kind.shape == "session" else store.fetch_range(key, key)

    def _windowed(self, windowed: Windowed[bytes]) -> Any:
        key, start, end = windowed.key, windowed.start, windowed.end
        return (key, start, end) if self.kind.shape == "session" else (key, start)

    def _gathered(self, rows: list[tuple[Any, Any]]) -> Contents:
        if not self.duplicates:
            return dict(rows)
        gathered: Contents = {}
        for place, item in rows:
            gathered[place] = (*gathered.get(place, ()), item)
        return gathered

    # The model.

    def model(self) -> Any:
        """Return a new model of an empty store."""
        if self.kind.shape == "key_value":
            return KeyValueModel()
        if self.kind.shape == "versioned":
            return VersionedModel(RETENTION_MS, INTERVAL_MS)
        if self.kind.shape == "session":
            return SessionModel(
                RETENTION_MS,
                INTERVAL_MS,
                time_ordered=self.kind.time_ordered,
                indexed=self.kind.indexed,
            )
        return WindowModel(
            RETENTION_MS,
            INTERVAL_MS,
            size=WINDOW_SIZE_MS,
            duplicates=self.duplicates,
            time_ordered=self.kind.time_ordered,
            indexed=self.kind.indexed,
        )

    def note(self, model: Any, change: Change) -> None:
        """Make a change in the model."""
        key, _, time, _, is_first = change
        item = self.item(change)
        if self.kind.shape == "session":
            model.put(*self.place(change), item)
        elif self.kind.shape != "key_value":
            model.put(key, item, time)
        elif not (is_first and item is not None and key in model.rows):
            model.put(key, item)

    def wanted(self, model: Any) -> Contents:
        """Return the contents of the model."""
        if self.kind.shape == "key_value":
            return dict(model.rows)
        if self.kind.shape == "versioned":
            return {
                (key, time): (item, valid_to)
                for key in model.versions
                for item, time, valid_to in model.history(key, None, None, reverse=False)
            }
        if self.kind.shape == "session":
            return dict(model.find())
        rows = model.range(None, None, None, None, reverse=False)
        return self._gathered([((key, start), item) for (key, start, _), item in rows])

    def adopt(self, model: Any, found: Contents, stream_time: int) -> None:
        """Replace the contents of a model by the contents of a store that retains duplicates."""
        model.observed = stream_time
        model.values = {place: list(enumerate(items, 1)) for place, items in found.items()}

    def forget(self, model: Any) -> None:
        """Remove from the model the rows that no later read can return."""
        if self.kind.shape == "versioned":
            first = segment_id(model.horizon, INTERVAL_MS)
            for key, versions in model.versions.items():
                times = sorted(versions)
                ends = [*times[1:], None]
                model.versions[key] = {
                    time: versions[time]
                    for time, end in zip(times, ends, strict=True)
                    if segment_id(time if end is None else end, INTERVAL_MS) >= first
                    or (end is None and versions[time] is not None)
                }
        elif self.kind.shape == "window":
            model.values = {p: held for p, held in model.values.items() if model.is_live(p[1])}
        elif self.kind.shape == "session":
            held = model.aggregates.items()
            model.aggregates = {place: item for place, item in held if model.is_live(place[2])}


def _version(record: Any) -> tuple[tuple[bytes, tuple[Any, ...]], int | None]:
    """Return a version as in the model: a tuple of the record and the end of the version."""
    return (record.value, tuple(getattr(record, "headers", ()))), record.valid_to

"""The records of a live directory of `map_state`: its shards, and the query that owns them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from dataclasses import asdict, dataclass, fields

from kstore_core.errors import SpecError, StateError
from kstore_core.spark.live.layout import LAYOUT_FORMAT, LiveLayout, differences, write_durably

__all__ = ["BoundState", "Sharding"]

_DOCUMENT = "map_state.json"
_QUERY = "query"
_RUN = re.compile(r"run-([0-9]{1,19})")


@dataclass(frozen=True, slots=True)
class Sharding:
    """The properties of a state that every run shares."""

    store: str
    shape: str
    key: str  # the name of the key serde
    engine: str
    partitions: int
    partition_by: str  # "key" or "partition"

    @classmethod
    def of(cls, layout: LiveLayout) -> tuple[str, Sharding] | None:
        """Read the id and the shards of a state; None before the first :meth:`bind`."""
        names = {"id", *(field.name for field in fields(cls))}
        remedy = "Put it back from a copy, or pass another root"
        document = layout.document(_DOCUMENT, names, remedy)
        return None if document is None else (str(document.pop("id")), cls(**document))

    def bind(self, layout: LiveLayout) -> BoundState:
        """Make the directory a state with these shards, or check it. For the driver.

        A SpecError if it has other shards; a StateError if it is damaged or cannot be made.
        """
        if Sharding.of(layout) is None:
            try:
                layout.path.mkdir(parents=True, exist_ok=True)
                document = {"format": LAYOUT_FORMAT, "id": uuid.uuid4().hex, **asdict(self)}
                with contextlib.suppress(FileExistsError):
                    text = json.dumps(document, indent=1) + "\n"
                    write_durably(layout.path / _DOCUMENT, text, os.link)
            except OSError as error:
                raise StateError(
                    f"{layout.path} cannot be made or written: {error.strerror or error}. Fix its "
                    "permissions, or pass another root"
                ) from error
        bound = Sharding.of(layout)
        assert bound is not None
        different = differences(asdict(bound[1]), asdict(self))
        if different:
            raise SpecError(
                f"{layout.path} has the state of another map_state: {different}. Pass the values "
                "that are there, or use another root"
            )
        return BoundState(layout, bound[0])


@dataclass(frozen=True, slots=True)
class BoundState:
    """The live directory of a state, and its unique id; workers receive a copy."""

    layout: LiveLayout
    id: str

    def check_seen(self) -> None:
        """Refuse a worker that does not see the driver's directory. For tasks."""
        bound = Sharding.of(self.layout)
        if bound is None or bound[0] != self.id:
            raise StateError(
                f"{self.layout.path} is not the directory that the driver made: this worker sees "
                f"{'none' if bound is None else 'another one'}. map_state writes its shards in "
                "place, so the root must be on a file system that all machines share"
            )

    def claim(self, query: str) -> None:
        """Make a streaming query the owner of the state; refuse a second query. For tasks."""
        place = self.layout.path / _QUERY
        with contextlib.suppress(FileExistsError):
            if not place.exists():
                write_durably(place, query, os.link)
        owner = place.read_text()
        if owner != query:
            raise StateError(
                f"{self.layout.path} is the state of the streaming query {owner}, not of "
                f"{query}: a checkpoint records the batches of one query only. Continue from the "
                f"checkpoint of {owner} or pass another root; or, if that query never runs again, "
                f"remove {place} to give its state to another query"
            )

    def begin_run(self) -> int:
        """Return the number of a new batch run, greater than all before. For the driver."""
        path = self.layout.path
        while True:
            names = [entry.name for entry in path.iterdir()]
            runs = [int(match[1]) for name in names if (match := _RUN.fullmatch(name))]
            number = max(runs, default=0) + 1
            try:
                (path / f"run-{number}").touch(exist_ok=False)
            except FileExistsError:
                continue
            for older in runs:
                (path / f"run-{older}").unlink(missing_ok=True)
            return number

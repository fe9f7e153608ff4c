"""The files with the properties, the owner and the last batch run of a state of `map_state`."""

from __future__ import annotations

import json
import re
import shlex
import uuid
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from typing import Generic, TypeVar

from kstore_core.errors import SpecError, StateError
from kstore_core.spark.live.layout import (
    LAYOUT_FORMAT,
    NEWEST_FORMAT,
    Layout,
    differences,
    parsed_document,
)
from kstore_core.spark.live.shard import LiveShard

__all__ = [
    "DOCUMENT",
    "PARTITION_TIMES",
    "SUBTOPOLOGY",
    "BoundState",
    "Sharding",
    "document_name",
    "newest_document",
]

DOCUMENT = "map_state.json"
"""The name of the file with the properties of a state."""


SUBTOPOLOGY = "subtopology"
"""The attribute ``shape`` of a sub-topology of `run_on_spark`, which may have several stores."""

PARTITION_TIMES = "partition-time"
"""The name of the store of `with_partition_time`, which has a row for each partition of a topic."""

_QUERY = "query"
_RUN = re.compile(r"run-([0-9]{1,19})")

AnyLayout = TypeVar("AnyLayout", bound=Layout)


def document_name(number: int) -> str:
    """Return the name of the document ``number``, which is a file with the properties of a state.

    On a disk, a state has only the document 0, which a rescale replaces. On an object store, each
    rescale adds a document, and only the newest document is valid.
    """
    return f"map_state-{number}.json" if number else DOCUMENT


def newest_document(layout: Layout) -> int:
    """Return the number of the newest document of a state, or 0 if the state does not exist."""
    number = 0
    while layout.read(document_name(number + 1)) is not None:
        number += 1
    return number


@dataclass(frozen=True, slots=True)
class Sharding:
    """The properties of a state of `map_state`, which must be equal in every run.

    Attributes
    ----------
    store, shape : str
        The name and the shape of the store, or of the sub-topology of `run_on_spark`.
    key : str
        The name of the key serde.
    engine : str
        The name of the engine of the shards.
    partitions : int
        The number of shards.
    partition_by : str
        How the shard of a row is chosen: ``"key"`` or ``"partition"``.
    folder : str
        The folder of the shards in the directory of the state, or an empty text if they are in the
        directory itself. A rescale makes a new folder.
    """

    store: str
    shape: str
    key: str
    engine: str
    partitions: int
    partition_by: str
    folder: str = ""

    @classmethod
    def of(cls, layout: Layout, number: int | None = None) -> tuple[str, Sharding] | None:
        """Read the id and the properties of a state. Return None if the state does not exist.

        The method reads the document ``number``, or the newest document if ``number`` is None.
        """
        if number is None:
            number = newest_document(layout)
        names = {"id", *(field.name for field in fields(cls))} - {"folder"}
        remedy = "Restore the file from a copy, or pass another root"
        name = document_name(number)
        document = parsed_document(layout, name, names, remedy, {"folder": ""})
        return None if document is None else (str(document.pop("id")), cls(**document))

    def bind(self, layout: AnyLayout) -> BoundState[AnyLayout]:
        """Create a state with these properties, or check that an existing state has them.

        Only the driver may call this method. Raises SpecError if the existing state has other
        properties, and StateError if the directory is damaged or cannot be created.
        """
        if Sharding.of(layout) is None:
            layout.prepare(0)
            layout.create(DOCUMENT, self.to_json())
        number = newest_document(layout)
        bound = Sharding.of(layout, number)
        assert bound is not None
        stored = asdict(bound[1])
        different = differences(stored, {**asdict(self), "folder": stored["folder"]})
        if different:
            raise SpecError(
                f"{layout} has a state with other properties: {different}. Pass the stored "
                "values, or use another root"
            )
        return BoundState(layout, bound[0], bound[1].folder, number)

    def to_json(self) -> str:
        """Return the content of a document with these properties and a new id."""
        document = {"format": LAYOUT_FORMAT, "id": uuid.uuid4().hex, **asdict(self)}
        if self.folder:
            document["format"] = NEWEST_FORMAT
        else:
            del document["folder"]
        return json.dumps(document, indent=1) + "\n"


@dataclass(frozen=True, slots=True)
class BoundState(Generic[AnyLayout]):
    """The live directory and the unique id of a state that exists.

    Each worker receives a pickled copy of this object. ``folder`` is the attribute of
    :class:`Sharding`, and ``number`` is the number of the document of the state.
    """

    layout: AnyLayout
    id: str
    folder: str = ""
    number: int = 0

    def checkout(
        self, shard: int, engine: str, timeout_s: float
    ) -> AbstractContextManager[LiveShard]:
        """Return the context manager of a shard from :meth:`Layout.checkout`."""
        return self.layout.checkout(self.id, self.folder, shard, engine, timeout_s, self.number)

    def check_seen(self) -> None:
        """Raise StateError if this machine and the driver see different states at the path.

        Each task calls this method before it opens its shard. If the shards are on a disk, the task
        calls this method again after it has locked its shard. A rescale must lock all shards before
        it replaces the state. So no rescale can replace the state after the second call, while the
        task has its lock.
        """
        bound = Sharding.of(self.layout, self.number)
        if bound is None or bound[0] != self.id:
            raise StateError(
                f"this worker sees {'no state' if bound is None else 'another state'} at "
                f"{self.layout}, but the driver saw the state. {self.layout.unseen}"
            )

    def way_back(self) -> str:
        """Return the instruction for going back to the shards from before the last rescale."""
        if self.number:
            before, after = (document_name(self.number + step) for step in (-1, 1))
            return f"copy {self.layout}/{before} to the new file {self.layout}/{after}"
        document = f"{self.layout}/{DOCUMENT}"
        return (
            f"cp {shlex.quote(f'{self.layout}/{self.folder}/{DOCUMENT}')} {shlex.quote(document)}"
        )

    def claim(self, query: str) -> None:
        """Make a streaming query the owner of the state, if the state has no owner yet.

        Each task of a stream calls this method. Raises StateError if another query owns the state.
        """
        owner = self.layout.read(_QUERY)
        if owner is None:
            self.layout.create(_QUERY, query)
            owner = self.layout.read(_QUERY)
        if owner != query:
            raise StateError(
                f"the state {self.layout} belongs to the streaming query {owner}, so the "
                f"query {query} cannot use it. Start the query with the checkpoint of {owner}, or "
                f"pass another root. If the query {owner} never runs again, you may remove "
                f"{self.layout}/{_QUERY} to give the state to another query"
            )

    def begin_run(self) -> int:
        """Store and return the number of a new batch run, greater than all earlier numbers.

        Only the driver may call this method.
        """
        while True:
            names = self.layout.names()
            runs = [int(match[1]) for name in names if (match := _RUN.fullmatch(name))]
            number = max(runs, default=0) + 1
            if self.layout.create(f"run-{number}", ""):
                self.layout.remove(f"run-{older}" for older in runs)
                return number

"""The files by which `map_state` marks a live directory: its properties, and the owning query."""

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
    """The properties of a state, which must be equal in every run."""

    store: str
    shape: str
    key: str  # the name of the key serde
    engine: str
    partitions: int
    partition_by: str  # "key" or "partition"

    @classmethod
    def of(cls, layout: LiveLayout) -> tuple[str, Sharding] | None:
        """Read the id and the properties of a state; return None before the first :meth:`bind`."""
        names = {"id", *(field.name for field in fields(cls))}
        remedy = "Restore the file from a copy, or pass another root"
        document = layout.document(_DOCUMENT, names, remedy)
        return None if document is None else (str(document.pop("id")), cls(**document))

    def bind(self, layout: LiveLayout) -> BoundState:
        """Create the state with these properties, or check those of an existing state.

        Only the driver calls it. Raises SpecError if the existing state has other properties, and
        StateError if the directory is damaged or cannot be made.
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
                    f"{layout.path} cannot be made or written: {error.strerror or error}. Fix "
                    "the permissions of this directory, or pass another root"
                ) from error
        bound = Sharding.of(layout)
        assert bound is not None
        different = differences(asdict(bound[1]), asdict(self))
        if different:
            raise SpecError(
                f"{layout.path} has a state with other properties: {different}. Pass the stored "
                "values, or use another root"
            )
        return BoundState(layout, bound[0])


@dataclass(frozen=True, slots=True)
class BoundState:
    """The live directory of a state, and the state's unique id. Workers receive a pickled copy."""

    layout: LiveLayout
    id: str

    def check_seen(self) -> None:
        """Raise StateError if this worker does not see the driver's directory. Tasks call it."""
        bound = Sharding.of(self.layout)
        if bound is None or bound[0] != self.id:
            raise StateError(
                f"{self.layout.path} is not the directory that the driver made: this worker sees "
                f"{'no state' if bound is None else 'another state'} at this path. map_state "
                "writes shards in place, so all machines must share the file system of the root"
            )

    def claim(self, query: str) -> None:
        """Make a streaming query the owner of the state; tasks call it.

        Raises StateError if another query owns the state.
        """
        place = self.layout.path / _QUERY
        with contextlib.suppress(FileExistsError):
            if not place.exists():
                write_durably(place, query, os.link)
        owner = place.read_text()
        if owner != query:
            raise StateError(
                f"{self.layout.path} is the state of the streaming query {owner}, not of "
                f"{query}. A checkpoint contains the batches of one query only. Continue from the "
                f"checkpoint of {owner}, or pass another root. If the query {owner} never runs "
                f"again, you may remove {place} to give the state to another query"
            )

    def begin_run(self) -> int:
        """Return the number of a new batch run, which is greater than all earlier numbers.

        Only the driver calls it.
        """
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

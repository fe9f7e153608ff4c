"""The binding of a root to one stream, stored in ``live/stream.json``.

Every restart of the stream must match the binding.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from kstore_core.errors import SpecError, StateError
from kstore_core.spark.live.layout import LAYOUT_FORMAT, LiveLayout, differences, write_durably
from kstore_core.system.directories import sync_directory

__all__ = ["StreamBinding", "check_not_streamed"]

_DOCUMENT = "stream.json"


@dataclass(frozen=True, slots=True)
class StreamBinding:
    """The identity of the stream that owns a root, and the properties of the root's shards."""

    query: str  # the query's id, which the checkpoint stores; empty while unknown
    checkpoint: str  # the location of the checkpoint, for messages
    store: str
    shape: str
    engine: str
    partitions: int
    partition_by: str  # "key" or "partition"

    @classmethod
    def of(cls, layout: LiveLayout) -> StreamBinding | None:
        """Read the binding of a live directory; return None if no stream owns the directory."""
        remedy = (
            f"Remove {layout.path} and start the stream with a new checkpoint; the stream then "
            "continues from the newest version"
        )
        document = layout.document(_DOCUMENT, {field.name for field in fields(cls)}, remedy)
        return None if document is None else cls(**document)

    def check(self, given: StreamBinding, layout: LiveLayout) -> None:
        """Check that ``given`` is the bound stream.

        Raises StateError for another query or checkpoint, and SpecError for other properties of the
        shards.
        """
        root = layout.path.parent
        restart = (
            f"Or stop that stream, remove {layout.path}, and start this stream with a new "
            "checkpoint; this stream then continues from the newest version"
        )
        if given.query and given.query != self.query:
            raise StateError(
                f"{root} belongs to the stream {self.query} of the checkpoint {self.checkpoint}, "
                f"but this stream is {given.query} of the checkpoint {given.checkpoint}. Use the "
                f"checkpoint {self.checkpoint}. {restart}"
            )
        if given.checkpoint != self.checkpoint and not given.query:
            raise StateError(
                f"{root} belongs to the stream of the checkpoint {self.checkpoint}, not "
                f"of {given.checkpoint}. Pass checkpoint={self.checkpoint!r}. {restart}"
            )
        identity = {"query": self.query, "checkpoint": self.checkpoint}
        different = differences(asdict(self), {**asdict(given), **identity})
        if different:
            raise SpecError(
                f"{root} belongs to a stream with other properties: {different}. Pass the stored "
                "values, or use another root"
            )

    def bind(self, layout: LiveLayout) -> StreamBinding:
        """Bind the live directory to this stream, and make the directories of the shards.

        If the directory is bound already, call :meth:`check` and return the existing binding.
        """
        bound = StreamBinding.of(layout)
        if bound is not None:
            bound.check(self, layout)
            return bound
        for number in range(self.partitions):
            layout.shard(number).mkdir(parents=True, exist_ok=True)
        text = json.dumps({"format": LAYOUT_FORMAT, **asdict(self)}, indent=1) + "\n"
        write_durably(layout.path / _DOCUMENT, text)
        sync_directory(layout.path.parent)
        return self


def check_not_streamed(root: Path) -> None:
    """Raise StateError if the root belongs to a stream, so that no other writer may publish."""
    layout = LiveLayout.of(root)
    bound = StreamBinding.of(layout)
    if bound is not None:
        raise StateError(
            f"{root} belongs to the stream of the checkpoint {bound.checkpoint}. The next version "
            "that the stream publishes would not contain the rows of this write. Write to another "
            f"root; or stop the stream and remove {layout.path}"
        )

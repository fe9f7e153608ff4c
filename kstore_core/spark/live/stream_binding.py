"""The binding of a root to one stream, in ``live/stream.json``; every restart must match it."""

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
    """The stream that a root belongs to, and its shards."""

    query: str  # its id, which the checkpoint stores; empty while it is unknown
    checkpoint: str  # its location, for messages
    store: str
    shape: str
    engine: str
    partitions: int
    partition_by: str  # "key" or "partition"

    @classmethod
    def of(cls, layout: LiveLayout) -> StreamBinding | None:
        """Read the binding of a live directory; None if no stream has written there."""
        remedy = (
            f"Remove {layout.path} and start the stream with a new checkpoint: it continues from "
            "the newest version"
        )
        document = layout.document(_DOCUMENT, {field.name for field in fields(cls)}, remedy)
        return None if document is None else cls(**document)

    def check(self, given: StreamBinding, layout: LiveLayout) -> None:
        """Refuse another query or checkpoint with a StateError, other shards with a SpecError."""
        root = layout.path.parent
        restart = (
            f"Stop that stream, remove {layout.path}, and start this one with a new checkpoint: it "
            "continues from the newest version"
        )
        if given.query and given.query != self.query:
            raise StateError(
                f"{root} belongs to the stream {self.query} of the checkpoint {self.checkpoint}, "
                f"and this stream is {given.query} of {given.checkpoint}: a checkpoint records the "
                f"epochs of one stream only. Use the checkpoint {self.checkpoint}; or: {restart}"
            )
        if given.checkpoint != self.checkpoint and not given.query:
            raise StateError(
                f"{root} belongs to the stream of the checkpoint {self.checkpoint}, not "
                f"of {given.checkpoint}. Pass checkpoint={self.checkpoint!r}; or: {restart}"
            )
        identity = {"query": self.query, "checkpoint": self.checkpoint}
        different = differences(asdict(self), {**asdict(given), **identity})
        if different:
            raise SpecError(
                f"{root} belongs to a stream with other shards: {different}. Pass the values that "
                "are there, or use another root"
            )

    def bind(self, layout: LiveLayout) -> StreamBinding:
        """Bind the live directory to this stream and make its shards' directories.

        Returns the earlier binding if there is one, after :meth:`check`.
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
    """Refuse, with a StateError, to write a version of a root that a stream writes to."""
    layout = LiveLayout.of(root)
    bound = StreamBinding.of(layout)
    if bound is not None:
        raise StateError(
            f"{root} belongs to the stream of the checkpoint {bound.checkpoint}, whose next "
            "version would not contain this version. Write to another root; or stop the stream and "
            f"remove {layout.path}"
        )

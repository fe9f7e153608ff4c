"""The binding of a root to one stream, which every restart has to match: ``live/stream.json``."""

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

    query: str  # its id, which stays with the checkpoint; empty while it is unknown
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
            f"Remove {layout.path} and start the stream with a new checkpoint: it goes on from "
            "the newest version"
        )
        document = layout.document(_DOCUMENT, {field.name for field in fields(cls)}, remedy)
        return None if document is None else cls(**document)

    def check(self, given: StreamBinding, layout: LiveLayout) -> None:
        """Refuse another query or checkpoint with a StateError, other shards with a SpecError."""
        root = layout.path.parent
        anew = (
            f"Stop it for good, remove {layout.path}, and start with a new checkpoint: the stream "
            "goes on from the newest version"
        )
        if given.query and given.query != self.query:
            raise StateError(
                f"{root} is written by the stream {self.query} of the checkpoint "
                f"{self.checkpoint}, and this one is {given.query} of {given.checkpoint}: two "
                f"checkpoints know nothing of each other. Go on from that one; or: {anew}"
            )
        if given.checkpoint != self.checkpoint and not given.query:
            raise StateError(
                f"{root} is written by the stream of the checkpoint {self.checkpoint}, not "
                f"of {given.checkpoint}. Pass checkpoint={self.checkpoint!r}; or: {anew}"
            )
        identity = {"query": self.query, "checkpoint": self.checkpoint}
        different = differences(asdict(self), {**asdict(given), **identity})
        if different:
            raise SpecError(
                f"{root} is written by a stream with other shards: {different}. Pass what is "
                "there, or use another root"
            )

    def bind(self, layout: LiveLayout) -> StreamBinding:
        """Bind the live directory to this stream and make its shards' directories.

        Returns the earlier binding if there is one, which has to pass :meth:`check`.
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
            f"{root} is written by the stream of the checkpoint {bound.checkpoint}, whose next "
            "version would not contain this one. Write to another root; or stop the stream for "
            f"good and remove {layout.path}"
        )

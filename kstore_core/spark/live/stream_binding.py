"""The binding of a root to one stream, which the file ``live/stream.json`` stores.

Only this stream may write to the root. A restart of the stream must use the same checkpoint and the
same properties of the shards.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from kstore_core.errors import SpecError, StateError
from kstore_core.spark.live.layout import (
    LAYOUT_FORMAT,
    LIVE,
    Layout,
    differences,
    parsed_document,
)

__all__ = ["StreamBinding", "check_not_streamed"]

_DOCUMENT = "stream.json"


@dataclass(frozen=True, slots=True)
class StreamBinding:
    """The identity of the stream that owns a root, and the properties of the root's shards.

    Attributes
    ----------
    query : str
        The id of the query, which the checkpoint contains, or an empty text if the id is not known
        yet.
    checkpoint : str
        The location of the checkpoint.
    store, shape : str
        The name and the shape of the store.
    engine : str
        The name of the engine of the shards.
    partitions : int
        The number of shards.
    partition_by : str
        How the shard of a row is chosen: ``"key"`` or ``"partition"``.
    """

    query: str
    checkpoint: str
    store: str
    shape: str
    engine: str
    partitions: int
    partition_by: str

    @classmethod
    def of(cls, layout: Layout) -> StreamBinding | None:
        """Read the binding of a live directory. Return None if no stream owns the directory."""
        remedy = (
            f"Remove {layout} and start the stream with a new checkpoint; the stream then "
            "continues from the newest version"
        )
        document = parsed_document(layout, _DOCUMENT, {each.name for each in fields(cls)}, remedy)
        return None if document is None else cls(**document)

    def check(self, given: StreamBinding, layout: Layout) -> None:
        """Check that the stream ``given`` is the stream of this binding.

        Raises StateError if ``given`` and this binding have different queries. If the query id of
        ``given`` is not known yet, the checkpoints are compared instead. Raises SpecError if
        another property, such as the number of shards, is different.
        """
        root = _root_of(layout)
        restart = (
            f"Or stop that stream, remove {layout}, and start this stream with a new "
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

    def bind(self, layout: Layout) -> StreamBinding:
        """Bind the live directory to this stream, and make the directories of the shards.

        Return the binding. If the directory is already bound, check that the directory is bound to
        this stream, and return the existing binding. The errors are those of :meth:`check`.
        """
        bound = StreamBinding.of(layout)
        if bound is None:
            layout.prepare(self.partitions)
            text = json.dumps({"format": LAYOUT_FORMAT, **asdict(self)}, indent=1) + "\n"
            layout.create(_DOCUMENT, text)
            bound = StreamBinding.of(layout)
            assert bound is not None
        bound.check(self, layout)
        return bound


def _root_of(layout: Layout) -> str:
    return str(layout).removesuffix(f"/{LIVE}")


def check_not_streamed(layout: Layout) -> None:
    """Raise StateError if the root belongs to a stream. Only this stream may publish versions.

    ``layout`` is the live directory of the root.
    """
    bound = StreamBinding.of(layout)
    if bound is not None:
        raise StateError(
            f"{_root_of(layout)} belongs to the stream of the checkpoint {bound.checkpoint}, so no "
            "other job may write to it. The next version that the stream publishes would not "
            "contain the rows of this job. Write to another root, or stop the stream and remove "
            f"{layout}"
        )

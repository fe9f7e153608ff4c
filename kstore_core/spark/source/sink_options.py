"""The options of ``df.writeStream.format("kstore")``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstore_core.errors import SpecError
from kstore_core.spark.source.options import READ_OPTIONS
from kstore_core.spark.storage import is_relative

if TYPE_CHECKING:
    from kstore_core.spec import StoreSpec

__all__ = ["SINK_OPTIONS", "SinkOptions", "sink_options"]

SINK_OPTIONS: dict[str, tuple[str, str]] = {
    "spec": (
        READ_OPTIONS["spec"].wants,
        "the store's description; needed where the root holds no version",
    ),
    "partitions": ("a number", "of shards; needed there too"),
    "partition_by": (
        "key or partition",
        "whether murmur2 places a record, or its column `partition`, as by default with one",
    ),
    "engine": ("the name of an engine", "of the shards; left out, the version's, or rocksdb"),
    "publish_every": ("a number from 1 on", "publish a version every how many epochs"),
}
"""What each takes and is for; ``path`` and ``checkpointLocation`` beside them."""

_SPARKS = ("path", "checkpointlocation", "queryname", "outputmode")


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of one sink.

    Attributes
    ----------
    path : str
    checkpoint : str
        Empty where the session says where it is.
    spec : StoreSpec or None
    partitions : int or None
    partition_by : str or None
    engine : str or None
    publish_every : int
    """

    path: str
    checkpoint: str
    spec: StoreSpec | None
    partitions: int | None
    partition_by: str | None
    engine: str | None
    publish_every: int


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """The options of a sink, checked.

    Raises
    ------
    SpecError
        An unknown option, a value that it does not take; no path, or a relative one.
    """
    texts = {name.lower(): text for name, text in given.items()}
    for name in texts:
        if name not in SINK_OPTIONS and name not in _SPARKS:
            near = difflib.get_close_matches(name, SINK_OPTIONS, 1)
            meant = f"Did you mean {near[0]!r}? " if near else ""
            raise SpecError(
                f"the sink of kstore has no option {name!r}. {meant}There are: path, "
                f"checkpointLocation, {', '.join(SINK_OPTIONS)}"
            )
    path = texts.get("path", "")
    if not path:
        raise SpecError('there is no path; pass the root of a store: .start("/where/it/is")')
    if is_relative(path):
        raise SpecError(
            f"the path {path!r} is relative, and Spark's processes stand in directories of their "
            "own; pass an absolute one"
        )
    by = texts.get("partition_by")
    if by not in (None, "key", "partition"):
        raise SpecError(f"the option partition_by={by!r} is not {SINK_OPTIONS['partition_by'][0]}")
    return SinkOptions(
        path,
        texts.get("checkpointlocation", ""),
        _spec(texts.get("spec")),
        _number(texts, "partitions", None),
        by,
        texts.get("engine"),
        _number(texts, "publish_every", 1) or 1,
    )


def _spec(text: str | None) -> StoreSpec | None:
    if text is None:
        return None
    try:
        spec: Any = READ_OPTIONS["spec"].parse(text)
    except ValueError as error:
        raise SpecError(
            f"the option spec={text!r} is not {SINK_OPTIONS['spec'][0]}: {error}"
        ) from error
    return spec


def _number(texts: Mapping[str, str], name: str, default: int | None) -> int | None:
    text = texts.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise SpecError(f"the option {name}={text!r} is not a number from 1 on")
    return int(text)

"""The options of ``df.writeStream.format("kstore")``: those of a write, and when to publish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kstore_core.errors import SpecError
from kstore_core.spark.source.write_options import WriteOptions, write_options

__all__ = ["PUBLISH_EVERY", "SinkOptions", "sink_options"]

PUBLISH_EVERY = "publish_every"
"""The option that says every how many epochs a version is published."""

_CHECKPOINT = "checkpointlocation"
_OF_SPARK = (_CHECKPOINT, "queryname", "outputmode")


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of one sink.

    Attributes
    ----------
    write : WriteOptions
    publish_every : int
    checkpoint : str
        Empty where not the option but the session says where it is.
    """

    write: WriteOptions
    publish_every: int
    checkpoint: str


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """The options of a sink, checked.

    Raises
    ------
    SpecError
        An unknown option, a value that it does not take; no path, or a relative one.
    """
    texts = {name.lower(): text for name, text in given.items()}
    every = texts.pop(PUBLISH_EVERY, "1")
    checkpoint = texts.get(_CHECKPOINT, "")
    if not (every.isascii() and every.isdigit() and 0 < int(every) < 2**31):
        raise SpecError(f"the option {PUBLISH_EVERY}={every!r} is not a number from 1 on")
    of_write = {name: text for name, text in texts.items() if name not in _OF_SPARK}
    return SinkOptions(write_options(of_write), int(every), checkpoint)

"""Streams of one driver, each of which is held at a step of its own until all of them are.

Then who runs them is killed, so one death is in the middle of as many epochs as there are steps.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from kstore_core.spark import stream_into
from kstore_core.spark.stream.epoch_runner import EpochRunner
from tests.spark.stream.work import DRIVER, EXECUTOR, Kills, shown
from tests.spark.support.logs import SHARDS, SPEC, make_log
from tests.spark.support.streams import AVAILABLE, add_epochs, epochs_of, slices_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


LOG = make_log(11, 120, SHARDS)
SLICES = slices_of(LOG, 2)


def plan(scratch: Path, kills: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Prepare epochs, and a stream for each name, with its kills: at which step, and of whom."""
    add_epochs(scratch / "in", SLICES)
    for name, of_it in kills.items():
        (scratch / name).mkdir()
        kills_of(scratch / name).plan(of_it)


def planned_epochs(spark: SparkSession, scratch: str) -> DataFrame:
    """The stream of the epochs that are planned."""
    return epochs_of(spark, Path(scratch, "in"))


def run_held(
    spark: SparkSession,
    scratch: str,
    names: Sequence[str],
    begin: Callable[[Path], StreamingQuery],
) -> None:
    """Begin a stream for each name, hold those that have a kill to wait for, and see all end."""
    places = [Path(scratch, name) for name in names]
    left = [kill.split()[1] for place in places for kill in kills_of(place).left()]
    if DRIVER in left or EXECUTOR in left:
        gateway: Any = spark.sparkContext._gateway
        arguments = (places, gateway.proc.pid)
        threading.Thread(target=_kill_when_held, args=arguments, daemon=True).start()
    for query in [begin(place) for place in places]:
        query.awaitTermination()


def kills_of(place: Path) -> Kills:
    """The kills of the stream that has this place."""
    return Kills(str(place / "kills"))


def emitted_by(place: Path) -> Path:
    """Where it notes what it emits: an epoch and its rows a line."""
    return place / "emitted"


def note(place: Path, epoch: int, rows: Sequence[Any]) -> None:
    """Note what a stream emits, and arm its next kill."""
    with emitted_by(place).open("a") as file:
        file.write(json.dumps([epoch, rows]) + "\n")
    kills_of(place).arm()


def begin_stream(
    epochs: DataFrame, place: Path, root: Path | str, options: dict[str, Any] | None
) -> StreamingQuery:
    """Begin to stream epochs into a root."""

    def emit(changes: DataFrame, epoch: int) -> None:
        note(place, epoch, shown([changes.toArrow()]))

    kills = kills_of(place)
    kills.arm()
    with mock.patch(
        "kstore_core.spark.stream.stream_into.EpochRunner", partial(EpochRunner, step=kills)
    ):
        return stream_into(
            epochs,
            root,
            storage_options=options,
            checkpoint=place / "checkpoint",
            spec=SPEC,
            partitions=SHARDS,
            trigger=AVAILABLE,
            emit=emit,
        )


def _kill_when_held(places: Sequence[Path], jvm: int) -> None:
    """Wait until each stream is held; then kill the driver, or one executor after the other.

    An executor dies when the streams that the one before took with it have done their epoch.
    """
    held = {place: place / "kills" / "held" for place in places}
    while not all(file.exists() for file in held.values()):
        time.sleep(0.05)
    who = {place: file.read_text().split() for place, file in held.items()}
    for file in held.values():
        file.unlink()
    if any(victim == DRIVER for victim, _ in who.values()):
        os.kill(jvm, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    for executor in dict.fromkeys(executor for _, executor in who.values()):
        os.kill(int(executor), signal.SIGKILL)
        of_it = [place for place in places if who[place][1] == executor]
        while not all(emitted_by(place).exists() for place in of_it):
            time.sleep(0.05)

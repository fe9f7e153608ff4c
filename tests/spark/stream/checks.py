"""Checks of a stream whose epochs were killed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from kstore_core.spark.root.root import Root
from tests.spark.stream.shard_epochs import Streamed, shards_are
from tests.spark.stream.work import shown
from tests.spark.support.held_streams import LOG, SLICES, emitted_by, kills_of
from tests.spark.support.logs import SPEC
from tests.spark.support.object_store import Bucket


def check_once(scratch: Path, names: Sequence[str], bucket: Bucket | None = None) -> None:
    """Each epoch is in each store once, has a version, and was emitted the same every time."""
    whole = Streamed(scratch / "whole", SPEC)
    wanted = {n: shown(whole.epoch(n, records)) for n, records in enumerate(SLICES)}
    for place in (scratch / name for name in names):
        assert kills_of(place).left() == []
        root = Root.at(place / "root") if bucket is None else bucket.root(place.name)
        assert shards_are(Streamed(root, SPEC), LOG, place / "restored")
        assert root.versions() == [*range(1, len(SLICES) + 1)]
        emitted = [json.loads(line) for line in emitted_by(place).read_text().splitlines()]
        assert {epoch for epoch, _ in emitted} == wanted.keys()
        for epoch, rows in emitted:
            assert rows == wanted[epoch]

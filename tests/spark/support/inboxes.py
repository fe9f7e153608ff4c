"""What the tasks of the sink leave for its commit, without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from kstore_core.spark.live.layout import LiveLayout
from kstore_core.spark.stream.sink import Received
from kstore_core.spark.root.inbox import Inbox
from tests.spark.stream.shard_epochs import QUERY


def received(root: Path, epoch: int, tasks: Iterable[pa.Table]) -> list[Any]:
    """What tasks with these rows answer."""
    inbox = Inbox.of(LiveLayout.of(root).path, QUERY, epoch)
    messages = []
    for number, rows in enumerate(tasks):
        batches = (batch for batch in rows.to_batches(7) if batch.num_rows)
        messages.append(Received(QUERY, inbox.write(number, batches)))
    return messages

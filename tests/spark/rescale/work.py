"""A driver that is killed within a rescale. The arguments are the root and the step."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from kstore_core.spark import local_session, rescale
from kstore_core.spark.rescale import live, versions
from kstore_core.spark.root.root import Root

STEPS = {
    "rows moved": (versions, "move_rows", "after"),
    "before the manifest": (Root, "publish", "before"),
    "after the manifest": (Root, "publish", "after"),
}
LIVE_STEPS = {
    "shards built": (live, "move_rows", "after"),
    "before the switch": (live, "sync_directory", "after"),
    "after the switch": (live, "_publish", "after"),
}


@contextmanager
def stopped_at(step: str, stop: Callable[[], object]) -> Iterator[None]:
    """Within the block, rescales call ``stop`` at a step."""
    place, name, when = {**STEPS, **LIVE_STEPS}[step]
    call = getattr(place, name)

    def stopping(*args: Any, **given: Any) -> Any:
        if when == "before":
            stop()
        result = call(*args, **given)
        if when == "after":
            stop()
        return result

    with mock.patch.object(place, name, stopping):
        yield


if __name__ == "__main__":
    local_session(shuffle_partitions=2, driver_memory="512m")
    with stopped_at(sys.argv[2], lambda: os.kill(os.getpid(), signal.SIGKILL)):
        rescale(sys.argv[1], partitions=3)

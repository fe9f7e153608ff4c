"""A driver that is killed within a rescale. The arguments are the root and the step."""

from __future__ import annotations

import os
import signal
import sys
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


def lethal(call: Any, when: str) -> Any:
    """Return ``call``, before or after which this process is killed."""

    def killing(*args: Any, **given: Any) -> Any:
        if when == "after":
            call(*args, **given)
        os.kill(os.getpid(), signal.SIGKILL)

    return killing


if __name__ == "__main__":
    root, step = sys.argv[1:]
    place, name, when = {**STEPS, **LIVE_STEPS}[step]
    local_session(shuffle_partitions=2, driver_memory="512m")
    with mock.patch.object(place, name, lethal(getattr(place, name), when)):
        rescale(root, partitions=3)

"""A writer that kills itself as soon as its database has two write-ahead logs."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from kstore_core import open_state, stores

MOST = 400


def main(root: Path) -> None:
    state = open_state(root, engine="rocksdb", options={"write_buffer_bytes": 4 * 1024 * 1024})
    store = state.open(stores.key_value("orders"))
    value = os.urandom(30_000)
    for commit in range(MOST):
        for row in range(5):
            store.put(b"%d-%d" % (commit, row), value)
        state.commit({("input", 0): commit})
        if len(list(root.glob("rocksdb/orders/*.log"))) > 1:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

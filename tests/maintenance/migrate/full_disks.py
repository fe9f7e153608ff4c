"""Programs for a disk that has room for a store, and not for two."""

from __future__ import annotations

import os
from pathlib import Path

from kstore_core import open_state, stores
from kstore_core.errors import StorageFullError
from kstore_core.maintenance.migrate import migrate
from kstore_core.state.checkpoint import checkpoint

SPEC = stores.timestamped_key_value("s")
WINDOWS = stores.window("w", 1_000_000, 10, segment_interval_ms=1000)
ROWS = 1300


def run(disk: str, engine: str) -> None:
    """Fill half the disk, and have copies fail in the other half."""
    root = Path(disk) / "0_0"
    values = [os.urandom(10_000) for _ in range(ROWS)]
    with open_state(root, engine=engine) as state:
        store = state.open(SPEC)
        for number, value in enumerate(values):
            store.put(b"%04d" % number, value, timestamp=number)
        state.commit()
    ballast = Path(disk) / "ballast"
    stat = os.statvfs(disk)
    ballast.write_bytes(b"b" * max(0, stat.f_bavail * stat.f_frsize - 4_000_000))
    for work in (
        lambda: migrate(root, "s", to="plain", lossy=True),
        lambda: migrate(root, "s", to="headers"),
        lambda: checkpoint(root, Path(disk) / "copy"),
        lambda: migrate(root, "s", engine="rocksdb" if engine == "lmdb" else "lmdb"),
    ):
        try:
            work()
        except StorageFullError:
            pass
        else:
            raise AssertionError("it had room")
        assert sorted(path.name for path in Path(disk).iterdir()) == ["0_0", "ballast"]
        assert not list(root.glob(".kstore-migrate*"))
        with open_state(root) as state:
            assert [record.value for _, record in state.open(SPEC).all()] == values
    ballast.unlink()

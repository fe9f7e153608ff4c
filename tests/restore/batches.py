"""Restores of small batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kstore_core.changelog.files import segment
from kstore_core.restore import replay as restore_log
from kstore_core.restore import spool as restore_parts


@contextmanager
def small_batches(size: int) -> Iterator[None]:
    """Restores so many bytes at a time, so that a short log is one of many batches."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("BATCH_BYTES", "BUILD_BYTES", "PUT_BYTES"):
            patch.setattr(restore_log, name, size)
        patch.setattr(restore_parts, "RECORD_BYTES", 0)
        patch.setattr(segment, "_CHUNK_BYTES", 100)  # a batch of the log at a time
        yield

"""An interrupt may come anywhere, also before a constructor has begun."""

from __future__ import annotations

import gc

from kstore_lmdb.scan import Scan


def test_a_scan_whose_constructor_was_interrupted_is_freed_in_silence() -> None:
    scan = Scan.__new__(Scan)
    del scan  # pytest raises what a finalizer raises
    gc.collect()

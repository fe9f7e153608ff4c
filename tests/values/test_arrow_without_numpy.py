"""Columns are made where pyarrow is installed and numpy is not: pyarrow does not need it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
import sys
sys.modules["numpy"] = None  # an import of it fails
from datetime import UTC, date, datetime
from kstore_core import open_state, serdes, stores
from kstore_core.arrow import to_binary
from kstore_core.testing.kinds import KINDS
from kstore_core.testing.store_suite import any_kind
import pyarrow as pa

try:
    import numpy
except ImportError:
    pass
else:
    raise SystemExit("numpy was to be missing")
VALUES = {
    "bytes": b"v", "utf8": "v", "json": {"a": 1}, "int32": -5, "int64": 2**40, "float64": -0.5,
    "boolean": True, "date": date(1969, 12, 31), "timestamp": datetime(2026, 1, 2, 3, tzinfo=UTC),
}
with open_state("nowhere", engine="memory") as state:
    for kind in KINDS:
        for serde in serdes.BUILT_IN.values():
            raw = any_kind.spec(kind, f"{kind}-{serde.name}")
            spec = type(raw)(**{
                name: serde if name == "value" else getattr(raw, name)
                for name in raw.__dataclass_fields__
            })
            store = state.open(spec)
            value = VALUES[serde.name]
            with state.record(timestamp=50, headers=[("h", None)]):
                for key in (b"a", b"b", b"c"):
                    if kind.shape == "window":
                        store.put(key, value, window_start=50)
                    elif kind.shape == "session":
                        store.put(any_kind._session(key), value)
                    else:
                        store.put(key, value)
            table = any_kind.scan(kind, store).to_arrow()
            assert table.num_rows == 3, kind
            found = table.column("value").to_pylist()
            assert found == ['{"a":1}' if serde.name == "json" else value] * 3, (kind, found)
for name in ("int32", "int64", "float64"):
    serde = serdes.BUILT_IN[name]
    column = pa.array([1, None, -3], serde.arrow_type)
    assert to_binary(serde, column).to_pylist() == [serde.encode(1), None, serde.encode(-3)]
print("done", "numpy" in [n for n, m in sys.modules.items() if m is not None])
"""


def test_scans_become_tables(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stdout == "done False\n", done.stderr

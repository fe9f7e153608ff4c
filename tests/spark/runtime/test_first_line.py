"""Typed errors leave out the traceback in Spark's Python processes, and only there."""

from __future__ import annotations

import io
import struct

import pytest

from kstore_core.errors import SpecError
from kstore_core.spark.runtime.first_line import without_traceback

HIDE = "SPARK_HIDE_TRACEBACK"


def told(monkeypatch: pytest.MonkeyPatch, error: Exception, *, worker: bool) -> str:
    """The text of an error that PySpark sends to the JVM."""
    from pyspark.util import handle_worker_exception

    monkeypatch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER" if worker else "")
    monkeypatch.setenv(HIDE, "")
    out = io.BytesIO()
    try:
        with without_traceback():
            raise error
    except Exception as raised:  # noqa: BLE001 - as PySpark does
        handle_worker_exception(raised, out)
    data = out.getvalue()
    (length,) = struct.unpack(">i", data[4:8])
    return data[8 : 8 + length].decode()


def test_a_typed_error_is_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(monkeypatch, SpecError("no option 'kee'"), worker=True)
    assert text == "kstore_core.errors.SpecError: no option 'kee'\n"


def test_other_errors_and_processes_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, KeyError("a bug"), worker=True).startswith("Traceback")
    assert told(monkeypatch, SpecError("wrong"), worker=False).startswith("Traceback")

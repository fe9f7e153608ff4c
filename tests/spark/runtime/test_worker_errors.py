"""The errors of workers: their first lines, and the errors that a driver makes of them."""

from __future__ import annotations

import io
import pickle
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core import errors
from kstore_core.errors import (
    CorruptionError,
    EngineLockedError,
    FormatError,
    KStoreError,
    QueryError,
    SpecError,
)
from kstore_core.spark import kstore_error, rescale, temporal_join, write_store
from kstore_core.spark.runtime.worker_errors import told, typed_errors, without_traceback
from kstore_core.typed.serde_failures import SerdeTypeError, SerdeUnicodeError
from tests.spark.support.logs import SHARDS, SPEC, log_frame, make_log
from tests.spark.support.spoiling import write_anew

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HIDE = "SPARK_HIDE_TRACEBACK"
CLASSES = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, KStoreError)
]


def reported(error: Exception, *, worker: bool = True) -> str:
    """The text of an error that PySpark sends to the JVM."""
    from pyspark.util import handle_worker_exception

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER" if worker else "")
        patch.setenv(HIDE, "")
        out = io.BytesIO()
        try:
            with without_traceback():
                raise error
        except Exception as raised:  # noqa: BLE001 - as PySpark does
            handle_worker_exception(raised, out)
    data = out.getvalue()
    (length,) = struct.unpack(">i", data[4:8])
    return data[8 : 8 + length].decode()


def of_spark(text: str) -> Exception:
    """An error of Spark that contains the text of a worker."""
    return RuntimeError(f"[FAILED] Job aborted.\nAn exception was thrown:\n {text}\n\tat x.java:1")


def test_a_typed_error_is_its_text_and_a_note() -> None:
    first, *notes = reported(SpecError("no option 'kee'")).splitlines()
    assert first == "kstore_core.errors.SpecError: no option 'kee'"
    assert notes == ['[kstore: [["SpecError", "KStoreError"], 15, {}]]']


def test_other_errors_and_processes_keep_their_traceback() -> None:
    assert reported(KeyError("a bug")).startswith("Traceback")
    assert "[kstore:" not in reported(SpecError("wrong"), worker=False)


@given(st.sampled_from(CLASSES), st.text(st.characters(exclude_categories=["Cs"])))
def test_every_class_and_text_comes_back(cls: type[KStoreError], text: str) -> None:
    error = cls(text)
    error.add_note("[a note of the user's]")
    found = kstore_error(of_spark(reported(error)))
    assert type(found) is cls
    assert str(found) == text


def test_attributes_come_back() -> None:
    def back(error: KStoreError) -> Any:
        return kstore_error(of_spark(reported(error)))

    assert back(EngineLockedError("held", pid=17)).pid == 17
    assert back(FormatError("bad", offset=0)).offset == 0
    assert back(QueryError("none", "unknown_store")).reason == "unknown_store"
    assert back(QueryError("none", "x" * 5_000)).reason == ""  # too long for a note
    assert isinstance(back(SerdeTypeError("of the store 'a'")), TypeError)
    unicode_error = SerdeUnicodeError("utf-8", "\ud800", 0, 1, "why")
    assert type(back(unicode_error)) is errors.SerdeError  # which takes only a text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n[kstore: ",
        "\n[kstore: 7]",
        '\n[kstore: [["SpecError"], 999, {}]]',
        '\n[kstore: [["Popen"], 0, {}]]',
        'no colon\n[kstore: [["SpecError"], 5, {}]]',
        'X: cut\n[kstore: [["SpecError"], 4, {}]]',
        'X: abc\n[kstore: [["SpecError"], -1, {}]]',
        'X: abc\n[kstore: [["SpecError"], "3", {}]]',
        'X: abc\n[kstore: [["SpecError"], 3, 5]]',
    ],
)
def test_other_texts_are_no_kstore_errors(text: str) -> None:
    assert kstore_error(RuntimeError(text)) is None
    with pytest.raises(RuntimeError), typed_errors():
        raise RuntimeError(text)


def test_a_kstore_error_stays_as_it_is() -> None:
    error = SpecError("here")
    assert kstore_error(error) is error
    with pytest.raises(SpecError) as caught, typed_errors():
        raise error
    assert caught.value is error
    assert caught.value.__cause__ is None


def test_a_task_can_be_pickled() -> None:
    assert list(pickle.loads(pickle.dumps(told(iter)))([1, 2])) == [1, 2]


@pytest.mark.spoils_root
def test_the_errors_of_workers_in_jobs(spark: SparkSession, root: Path) -> None:
    """A write and a rescale raise the error of a worker; a join by the user tells it."""
    from pyspark.errors import PySparkException

    log = make_log(3, 40, SHARDS)
    write_store(log_frame(spark, log[:20]), root, SPEC, partitions=SHARDS)
    for path in (root / "attempts").rglob("*"):
        if path.is_file():
            write_anew(path, b"damaged")
    with pytest.raises(CorruptionError, match="differs from its manifest"):
        write_store(log_frame(spark, log), root, mode="append")
    with pytest.raises(CorruptionError):
        rescale(root, partitions=SHARDS + 1)
    rows = spark.sql("select binary('k1') as key, timestamp_millis(1) as at from range(20)")
    with pytest.raises(PySparkException) as raised:
        temporal_join(rows, root, key="key", timestamp="at").collect()
    assert isinstance(kstore_error(raised.value), CorruptionError)
    with pytest.raises(CorruptionError) as caught, typed_errors():
        temporal_join(rows, root, key="key", timestamp="at").collect()
    assert isinstance(caught.value.__cause__, PySparkException)

"""The local session, and what importing the package brings along."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core.errors import EngineUnavailableError
from kstore_core.spark import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_importing_the_package_imports_neither_spark_nor_arrow() -> None:
    code = (
        "import kstore_core.spark, sys; "
        "print(*sorted({'pyspark', 'pyarrow', 'numpy', 'pandas', 'rocksdict'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_without_pyspark_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(EngineUnavailableError, match=r"pip install 'pyspark>=4"):
        local_session()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cores": 0}, "cores=0 must be an int of 1 or more"),
        ({"cores": "2"}, "cores='2' must be an int"),
        ({"shuffle_partitions": True}, "shuffle_partitions=True must be"),
        (
            {"driver_memory": "2GB"},
            "driver_memory='2GB' must be a number and one of k",
        ),
        ({"driver_memory": 2}, "driver_memory=2 must be a number .* '512m' or '2g'"),
    ],
)
def test_what_java_would_not_take_is_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        local_session(**options)


def test_the_session_is_quiet_and_local(spark: SparkSession) -> None:
    assert local_session("another") is spark
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.master"] == "local[2]"
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.python.unix.domain.socket.enabled"] == "true"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.pythonExec == sys.executable
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert "log4j2" in settings["spark.driver.extraJavaOptions"]

"""A quiet local Spark session, for the demo, the tests and a first look."""

from __future__ import annotations

import os
import re
import socket
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kstore_core.errors import EngineUnavailableError
from kstore_core.hints import install
from kstore_core.spark.runtime.java import use_java
from kstore_core.spark.runtime.registering import register_hidden

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["local_session"]

_JAVA = "spark.driver.extraJavaOptions"
_HEAP = re.compile("[1-9][0-9]*[kmgtKMGT]")
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


def local_session(
    app_name: str = "kstore",
    *,
    cores: int = 2,
    shuffle_partitions: int = 4,
    driver_memory: str = "2g",
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark on this machine, or return the active session.

    It has no web UI and listens only on 127.0.0.1. Python workers are this interpreter, reached
    through sockets in the temporary directory. Times are UTC, and only errors are logged. Java is
    found by :func:`kstore_core.spark.runtime.java.find_java`.

    Parameters
    ----------
    app_name : str
        The application's name in Spark.
    cores : int
        The number of tasks that run at once.
    shuffle_partitions : int
        ``spark.sql.shuffle.partitions``.
    driver_memory : str
        Heap of the one Java process, as Spark writes it: ``"2g"``.
    config : mapping of str to str, optional
        Further Spark settings; they override those above, except Java options, which are added.

    Raises
    ------
    EngineUnavailableError
        PySpark or a Java for it is missing. The text names what to install.
    ValueError
        Numbers below 1, or a heap that Java does not take.
    """
    for name, number in (("cores", cores), ("shuffle_partitions", shuffle_partitions)):
        if type(number) is not int or number < 1:
            raise ValueError(f"{name}={number!r}; it is an int from 1 on")
    if not isinstance(driver_memory, str) or not _HEAP.fullmatch(driver_memory):
        raise ValueError(
            f"driver_memory={driver_memory!r}; it is a number with k, m, g or t behind it, in "
            "quotes: '512m', '2g'"
        )
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise EngineUnavailableError(
            f"PySpark is not installed. Try: {install('spark')}"
        ) from error

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    use_java()
    # Tasks use the one, data sources the other, where jupyter would start for each.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    with tempfile.TemporaryDirectory(prefix="kstore-log4j-") as scratch:
        logging = Path(scratch, "log4j2.properties")
        logging.write_text(_LOGGING)
        further = dict(config or {})
        java_options = f"-Dlog4j2.configurationFile={logging.as_uri()} {further.pop(_JAVA, '')}"
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": driver_memory,
            _JAVA: java_options.strip(),
            "spark.sql.shuffle.partitions": str(shuffle_partitions),
            "spark.sql.session.timeZone": "UTC",
            # Rows go to Python and back a fifth faster than through a port of 127.0.0.1.
            "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
            **further,
        }
        builder = SparkSession.builder.appName(app_name).master(f"local[{cores}]")
        for key, value in settings.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    register_hidden(session)
    return session

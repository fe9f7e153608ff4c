"""The function `local_session`, which starts Spark on one machine, for demos, tests and trials."""

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

    A new session has no web UI and listens only on 127.0.0.1. Its Python workers run the same
    interpreter as this process, and use sockets in the temporary directory. Its time zone is UTC,
    and it logs only errors. :func:`kstore_core.spark.runtime.java.find_java` chooses the Java.

    Parameters
    ----------
    app_name : str
        The application's name in Spark.
    cores : int
        The number of concurrent tasks.
    shuffle_partitions : int
        The setting ``spark.sql.shuffle.partitions``.
    driver_memory : str
        The heap size of the Java process, such as ``"2g"``.
    config : mapping of str to str, optional
        Further Spark settings, which override the settings of this function. Only the value of
        ``spark.driver.extraJavaOptions`` is appended to the function's value.

    Raises
    ------
    EngineUnavailableError
        PySpark or a Java for PySpark is missing. The message has a command that installs the
        missing part.
    ValueError
        ``cores`` or ``shuffle_partitions`` is below 1, or ``driver_memory`` is not a size that Java
        accepts.
    """
    for name, number in (("cores", cores), ("shuffle_partitions", shuffle_partitions)):
        if type(number) is not int or number < 1:
            raise ValueError(f"{name}={number!r} must be an int of 1 or more")
    if not isinstance(driver_memory, str) or not _HEAP.fullmatch(driver_memory):
        raise ValueError(
            f"driver_memory={driver_memory!r} must be a number and one of k, m, g and t, such as "
            "'512m' or '2g'"
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
    # Tasks use PYSPARK_PYTHON. Data sources use PYSPARK_DRIVER_PYTHON, which may be jupyter. So set
    # both.
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
            # Unix sockets move rows to Python and back a fifth faster than a port of 127.0.0.1.
            "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
            **further,
        }
        builder = SparkSession.builder.appName(app_name).master(f"local[{cores}]")
        for key, value in settings.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    register_hidden(session)
    return session

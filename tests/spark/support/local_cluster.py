"""A Spark cluster on this machine: a driver in a process of its own, and executors in theirs.

``local-cluster[2,1,1024]`` starts a JVM for each executor, with Python workers of its own, so what
is killed is what dies on a cluster. The driver takes calls: ``cluster.call(function, *arguments)``
runs a function of an importable module there, with the session as its first argument.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.places import ROOT
from tests.support.spark_home import make_spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_S, CALL_S = 300, 600
"""What a busy machine may take; on a quiet one it is a tenth."""


class Raised(Exception):  # noqa: N818 - it is what a call raised, not an error of this module
    """What a function raised in the driver.

    Attributes
    ----------
    kind : str
        The name of its class.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class LocalCluster:
    """A driver that was started, and its executors."""

    def __init__(
        self, scratch: Path, settings: Mapping[str, str], environment: Mapping[str, str]
    ) -> None:
        self._log = scratch / "driver.log"
        paths = [str(ROOT), str(ROOT / "plugins")]
        # A socket of no address has a short one: the path of one may not have more than 107 bytes.
        with Listener(family="AF_UNIX") as listener, self._log.open("w") as log:
            address = str(listener.address)
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.support.local_cluster", address],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=scratch,
                start_new_session=True,
                env={
                    **{name: os.environ[name] for name in os.environ if "PYSPARK" not in name},
                    "PYTHONPATH": os.pathsep.join(paths),
                    "SPARK_HOME": str(make_spark_home(scratch / "spark")),
                    "SPARK_SCALA_VERSION": "2.13",
                    "SPARK_LOCAL_DIRS": str(scratch / "local"),
                    "TMPDIR": str(scratch),
                    **environment,
                },
            )
            # A driver that ends early would leave accept() waiting for ever.
            listener._listener._socket.settimeout(START_S)  # type: ignore[attr-defined]
            self._driver: Connection = listener.accept()
        self._driver.send(dict(settings))
        self._answer(START_S)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What ``function(spark, *arguments)`` returns in the driver.

        Raises
        ------
        Raised
            It raised something.
        """
        self._driver.send((function.__module__, function.__name__, arguments))
        return self._answer(CALL_S)

    def _answer(self, seconds: float) -> Any:
        if not self._driver.poll(seconds):
            raise TimeoutError(f"no answer in {seconds} s:\n{self.log()}")
        try:
            kind, answer = self._driver.recv()
        except EOFError:
            raise AssertionError(f"the driver is gone:\n{self.log()}") from None
        if kind is not None:
            raise Raised(kind, answer)
        return answer

    def log(self) -> str:
        """The end of what the driver and its JVM have said."""
        return self._log.read_text(errors="replace")[-20_000:]

    def wait_for_executors(self) -> None:
        """Wait until no process of this cluster runs: executors end when they miss the driver.

        All of them are in the session of the driver, which began one.
        """
        until = time.monotonic() + CALL_S
        while any(_session_of(process) == self.process.pid for process in Path("/proc").iterdir()):
            assert time.monotonic() < until, "an executor outlives its driver"
            time.sleep(0.2)

    def stop(self) -> None:
        """End the driver; its executors end with it."""
        self._driver.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _session_of(process: Path) -> int | None:
    """The session of a process that runs."""
    try:
        state, _, _, session = (process / "stat").read_text().rpartition(")")[2].split()[:4]
    except (OSError, ValueError):
        return None
    return None if state == "Z" else int(session)


def parent_of(process: int) -> int:
    """The parent of a process: of the daemon that forks Python workers, its executor."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def die_with(process: int) -> None:
    """Kill an executor or a driver; the daemon ends this worker when it misses its executor."""
    os.kill(process, signal.SIGKILL)
    time.sleep(600)


@contextlib.contextmanager
def local_cluster(
    scratch: Path,
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[LocalCluster]:
    """Two executors of one core each, and a driver, stopped at the end.

    Parameters
    ----------
    scratch : Path
        Where all of them put their files.
    settings : mapping, optional
        Further Spark settings.
    environment : mapping, optional
        Further environment variables of the driver, which its executors inherit.
    """
    cluster = LocalCluster(scratch, settings or {}, environment or {})
    try:
        yield cluster
    finally:
        cluster.stop()


def session(settings: Mapping[str, str]) -> SparkSession:
    """The session of the driver."""
    from pyspark.sql import SparkSession

    from kstore_core.spark import local_session

    quick = os.environ.get("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
    config = {
        "spark.master": "local-cluster[2,1,1024]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.locality.wait": "0",  # tasks do not wait for the executor that has their rows
        "spark.driver.extraJavaOptions": quick,
        "spark.executor.extraJavaOptions": quick,
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.sql.warehouse.dir": str(Path.cwd() / "warehouse"),
        **settings,
    }
    if "PYSPARK_PYTHON" not in os.environ:
        return local_session(shuffle_partitions=2, driver_memory="1g", config=config)
    from kstore_core.spark.runtime.java import use_java

    use_java()  # a local session's workers are this interpreter, and these are not
    builder = SparkSession.builder.appName("kstore").config("spark.ui.enabled", "false")
    for name, value in config.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


_FAILED: Any = object()


def serve(address: str) -> None:
    """Answer calls until the other side hangs up."""
    with Client(address) as caller:
        spark = _answered(caller, session, caller.recv())
        if spark is _FAILED:
            return
        caller.send((None, None))
        with contextlib.suppress(EOFError):
            while True:
                module, name, arguments = caller.recv()
                function = getattr(importlib.import_module(module), name)
                answer = _answered(caller, function, spark, *arguments)
                if answer is not _FAILED:
                    caller.send((None, answer))
        spark.stop()


def _answered(caller: Connection, function: Callable[..., Any], *arguments: Any) -> Any:
    """The result; where there is none, the caller has been told why."""
    try:
        return function(*arguments)
    except BaseException as error:  # noqa: BLE001 - carried to the caller
        traceback.print_exc()
        caller.send((type(error).__name__, str(error)))
        return _FAILED


if __name__ == "__main__":
    serve(sys.argv[1])

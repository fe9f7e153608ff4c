"""Fixtures of the whole suite."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import class_archive
from tests.support.engines import ENGINES, Home, MakeHome
from tests.support.installing import fresh, install, sample
from tests.support.places import TESTS
from tests.support.selection import SELECTED, repeated, select
from tests.support.slowest import SlowestFiles
from tests.support.sound import assert_left_sound, in_one_process
from tests.support.spark_home import make_spark_home

if TYPE_CHECKING:
    from tests.support.scheduling import FewServers

__all__ = ["engine", "fresh", "home", "install", "left_sound", "make_home", "one_process", "sample"]

_SHARED_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 6 * 1024**3


_SCRATCH = pytest.StashKey[str]()
_ARCHIVE = pytest.StashKey[subprocess.Popen[bytes]]()

_TESTS_A_SWEEP = 50


def pytest_configure(config: pytest.Config) -> None:
    """Put temporary directories into memory if it has room, unless TMPDIR is set.

    Tests open databases by the thousand, and an open waits for the disk some ten times. A kill
    leaves the same files in memory as on a disk. No test can see what a power cut would leave.
    """
    # A shell that starts a command in the background may have it ignore SIGINT; tests send it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A process has one server of forks. Its starter lists the modules that it imports in advance.
    multiprocessing.get_context("forkserver").set_forkserver_preload(
        [
            "kstore_core.testing.killer.writer",
            "tests.restore.killed",
            "kstore_lmdb",
            "kstore_rocksdb",
        ]
    )
    _prepare_spark(config)
    config.pluginmanager.register(_Swept())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SlowestFiles())
    if "TMPDIR" in os.environ or not _SHARED_MEMORY.is_dir():
        return
    if shutil.disk_usage(_SHARED_MEMORY).free >= _ROOM_BYTES:
        scratch = tempfile.mkdtemp(prefix="kstore-tests-", dir=_SHARED_MEMORY)
        config.stash[_SCRATCH] = os.environ["TMPDIR"] = scratch
        tempfile.tempdir = None  # which has been asked for by now


def _prepare_spark(config: pytest.Config) -> None:
    """Let Spark start quickly: from links to its files, and with an archive of its classes.

    A run of all tests makes the archive beside the tests.
    """
    cache: pytest.Cache | None = getattr(config, "cache", None)  # None with -p no:cacheprovider
    if "SPARK_SUBMIT_OPTS" in os.environ or cache is None or find_spec("pyspark") is None:
        return  # Workers get the options of their controller.
    place = cache.mkdir("spark")
    home = place / f"spark-{version('pyspark')}"
    if not (home / "bin").is_dir():  # a link, which is broken if the installed Spark has moved
        shutil.rmtree(home, ignore_errors=True)
        make_spark_home(home)
    os.environ.setdefault("SPARK_HOME", str(home))
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy would start a thread per process
    archive = place / f"classes-{version('pyspark')}.jsa"
    os.environ["SPARK_SUBMIT_OPTS"] = class_archive.driver_options(archive)
    runs_all = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if runs_all and config.getoption("markexpr") != "selected" and not archive.exists():
        config.stash[_ARCHIVE] = class_archive.start_making(archive)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Leave nothing in memory, what killed processes have left included; but what has failed.

    At the very end: the server of forks has its socket there.
    """
    making = session.config.stash.get(_ARCHIVE, None)
    if making is not None and making.poll() is None:
        os.killpg(making.pid, signal.SIGKILL)
    scratch = session.config.stash.get(_SCRATCH, None)
    if scratch is not None and exitstatus == 0:
        Finalize(None, shutil.rmtree, args=(scratch, True), exitpriority=-1000)


@pytest.hookimpl(tryfirst=True)  # before ``-m selected`` looks at the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out repetitions, and mark the selection.

    Where processes share the tests, begin with slow files, then large ones.

    Whichever file is begun last should be short: one process does it, and the others are idle.
    """
    chosen = select(items)
    for item in chosen:
        item.add_marker("selected")
    if {item.path for item in items}.issuperset(TESTS.rglob("test_*.py")):
        config.stash[SELECTED] = [item.nodeid for item in chosen]
    left_out = repeated(items) - set(chosen)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    if not hasattr(config, "workerinput"):
        return
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    counts = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in slow, -counts[item.path]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FewServers | None:
    """Share what starts slowly, where files are shared among processes."""
    from tests.support.scheduling import FewServers

    return FewServers(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """Sweep for the first time: there are thousands of tests by now."""
    _sweep()


class _Swept:
    """Sweeps between two modules, and now and then within a long one."""

    def __init__(self) -> None:
        self._module = ""
        self._tests = 0

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        module = nodeid.partition("::")[0]
        self._tests += 1
        if module != self._module or self._tests >= _TESTS_A_SWEEP:
            self._module, self._tests = module, 0
            _sweep()


def _sweep() -> None:
    """Collect what is dead, and have the collector leave alone what lives on.

    The suites of the kit have it run after each test, and pytest keeps something of every test.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The name of each engine in turn."""
    return str(request.param)


@pytest.fixture
def make_home(tmp_path: Path, engine: str) -> MakeHome:
    """Makes empty state directories on the engine of the test."""
    numbers = itertools.count()

    def make() -> Home:
        return Home(tmp_path / f"0_{next(numbers)}", engine)

    return make


@pytest.fixture
def home(make_home: MakeHome) -> Home:
    """An empty state directory on the engine of the test."""
    return make_home()


@pytest.fixture
def one_process() -> Iterator[None]:
    """Commands start no process to read, for data that cannot end the process that reads it."""
    with in_one_process():
        yield


@pytest.fixture
def left_sound(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """At the end of a test that passed, its state directories are sound.

    For modules that upgrade, migrate, restore, copy or drop. A test that leaves a directory with
    something to find says so with ``@pytest.mark.unsound``.
    """
    failed = request.session.testsfailed
    yield
    passed = request.session.testsfailed == failed
    if passed and request.node.get_closest_marker("unsound") is None:
        assert_left_sound(tmp_path, request.module.__name__.split(".")[1])

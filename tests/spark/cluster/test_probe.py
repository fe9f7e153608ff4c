"""What one task tells of its machine, and what the driver makes of all of them. No Spark."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pickle
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from kstore_core.errors import EngineUnavailableError, StateError
from kstore_core.spark.cluster import check as cluster
from kstore_core.spark.cluster.probe import look
from kstore_core.spark.cluster.shared_root import Visit, visiting
from kstore_core.spark.root.root import Root
from tests.spark.support.logs import nothing_written


def seen(slot: int = 0, *, engine: str = "rocksdb", visit: Visit | None = None) -> dict[str, Any]:
    """What a task sees here."""
    carried = None if visit is None else pickle.dumps(visit)
    found: dict[str, Any] = json.loads(look(slot, engine, carried, 0.0))
    return found


def test_a_task_that_finds_everything_has_no_fault(root: Path) -> None:
    with visiting(root, None, write=True) as visit:
        found = seen(3, visit=visit)
        assert visit.from_the_driver(3) is None
    assert found["faults"] == []
    assert found["root"] is None
    assert (found["slot"], found["interpreter"]) == (3, sys.executable)
    assert nothing_written(root)


def test_an_engine_that_is_not_there_is_a_fault() -> None:
    (fault,) = seen(engine="rocks")["faults"]
    assert fault.startswith("no store can be written with 'rocks': no engine named 'rocks'")


def test_what_is_installed_and_does_not_load_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Built for another platform, for one."""

    def load(name: str) -> Any:
        raise ImportError(f"{name}: wrong ELF class")

    monkeypatch.setattr(importlib, "import_module", load)
    found = seen()
    assert found["kstore"] is None
    assert found["pyarrow"] is None
    assert found["engines"] == []
    assert found["faults"] == [
        "kstore cannot be imported: ImportError: kstore_core.state: wrong ELF class",
        "pyarrow cannot be imported: ImportError: pyarrow: wrong ELF class",
    ]


def test_a_root_that_a_task_sees_elsewhere_is_a_fault(root: Path, tmp_path: Path) -> None:
    with visiting(root, None, write=True) as visit:
        elsewhere = dataclasses.replace(visit, root=Root.at(tmp_path / "elsewhere"))
        assert "a task cannot see the driver's file: " in str(elsewhere.from_a_task(0))
        assert nothing_written(tmp_path / "elsewhere")


def test_a_root_where_the_driver_misses_what_a_task_wrote_is_a_fault(
    root: Path, tmp_path: Path
) -> None:
    """As with copies that somebody makes of a root, from one machine to the others."""
    with visiting(root, None, write=True) as visit:
        shutil.copytree(root, tmp_path / "copy")
        copy = dataclasses.replace(visit, root=Root.at(tmp_path / "copy"))
        assert copy.from_a_task(0) is None
        assert "the driver cannot see a task's file: " in str(visit.from_the_driver(0))


def test_a_root_that_a_task_cannot_write_to_is_a_fault(root: Path) -> None:
    with visiting(root, None, write=True) as visit:
        assert visit.job is not None
        (root / visit.root.attempts(visit.job) / "0").mkdir()
        assert "a task cannot write a file: " in str(visit.from_a_task(0))


@pytest.mark.spoils_root
def test_a_root_that_is_only_read_is_not_written_to(root: Path, tmp_path: Path) -> None:
    (root / "_kstore").mkdir(parents=True)
    (root / "_kstore" / "7.json").write_text("{}")
    before = sorted(root.rglob("*"))
    with visiting(root, None, write=False) as visit:
        assert visit.from_a_task(0) is None
        assert visit.from_the_driver(0) is None
        elsewhere = dataclasses.replace(visit, root=Root.at(tmp_path / "elsewhere"))
        assert elsewhere.from_a_task(0) == "a task cannot see version 7; it sees the versions: none"
        file = tmp_path / "file"
        file.touch()
        broken = dataclasses.replace(visit, root=Root.at(file))
        assert "a task cannot read the root: " in str(broken.from_a_task(0))
    assert sorted(root.rglob("*")) == before


def test_another_version_of_kstore_is_refused() -> None:
    found = seen()
    with pytest.raises(
        EngineUnavailableError, match=r"the version of kstore is 0\.0\.1, but the driver"
    ):
        cluster._refuse_software([found | {"kstore": "0.0.1"}])
    cluster._refuse_software([found])


def test_each_fault_is_told_once_for_all_hosts_that_have_it(root: Path) -> None:
    found = seen()
    many = [found | {"host": f"host{n}", "root": "it is not seen"} for n in range(8)]
    with (
        visiting(root, None, write=False) as visit,
        pytest.raises(StateError, match=r"host0 .*, host4 \([^,]*\) and 3 more: it is") as caught,
    ):
        cluster._refuse_root([found, *many], visit)
    assert str(caught.value).count("it is not seen") == 1


def test_tasks_of_one_executor_are_one_worker() -> None:
    found = seen()
    workers = cluster._workers([found, found | {"daemon": 1}, found | {"slot": 5}])
    assert [worker.tasks for worker in workers] in ([1, 2], [2, 1])
    assert {worker.host for worker in workers} == {socket.gethostname()}

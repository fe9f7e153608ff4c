"""The plug-in: found by name, and explained where its library is missing."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

import kstore_rocksdb
from kstore_core.engine import Engine
from kstore_core.hookspecs import EngineRegistrar


class Registrar:
    def __init__(self) -> None:
        self.engines: list[type[Engine]] = []

    def add(self, engine: type[Engine]) -> None:
        self.engines.append(engine)


def test_the_hook_adds_the_engine() -> None:
    registrar = Registrar()
    as_protocol: EngineRegistrar = registrar
    kstore_rocksdb.kstore_register_engines(registrar=as_protocol)
    assert registrar.engines == [kstore_rocksdb.RocksDBEngine]
    engine = kstore_rocksdb.RocksDBEngine
    assert engine.name == "rocksdb"
    assert engine.capabilities.persistent
    assert not engine.capabilities.process_local
    assert engine.capabilities.empty_keys
    assert engine.capabilities.max_key_bytes is None
    assert engine.capabilities.checkpoint
    assert engine.capabilities.bulk_load


def installed() -> bool:
    return any(point.name == "rocksdb" for point in metadata.entry_points(group="kstore.engines"))


@pytest.mark.skipif(not installed(), reason="the distribution is not installed")
@pytest.mark.parametrize("present", [True, False])
def test_the_registry_finds_it_or_says_what_to_install(present: bool) -> None:
    code = "import sys\n"
    if not present:
        code += "sys.modules['rocksdict'] = None\n"
    code += (
        "from kstore_core.errors import EngineUnavailableError\n"
        "from kstore_core.discovery.registry import engine_class\n"
        "try:\n"
        "    print(engine_class('rocksdb').__name__)\n"
        "except EngineUnavailableError as error:\n"
        "    print(error)\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    if present:
        assert output == "RocksDBEngine\n"
    else:
        assert "pip install 'rocksdict>=0.3.29,<0.4'" in output
        assert "rocksdict" in output


def test_importing_core_does_not_import_the_binding() -> None:
    code = "import sys, kstore_core.discovery.registry; print('rocksdict' in sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert output == "False\n"

"""The plug-in: found by name, and explained where its library is missing."""

from __future__ import annotations

import subprocess
import sys

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


def test_importing_core_does_not_import_the_binding() -> None:
    code = "import sys, kstore_core.discovery.registry; print('rocksdict' in sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert output == "False\n"

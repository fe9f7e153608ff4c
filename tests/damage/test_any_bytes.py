"""Whatever bytes the files of a store have, opening and reading it gives an error of kstore's.

Files are replaced by contents that break the parsers of names, numbers and text; rows and entries
of the offsets namespace are written by the engine itself, so that its checksums vouch for them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Rows
from kstore_core.errors import CorruptionError, KStoreError
from kstore_core.maintenance.verify.entries import read_entries
from kstore_core.offsets.entries import read_record
from kstore_core.tables import Bounds
from kstore_core.tables.segments.prefixed import PrefixedTable
from kstore_lmdb import LMDBEngine
from kstore_rocksdb.files.readonly import current_manifest
from tests.damage.homes import SPECS
from tests.damage.made import SEED, TIMES, Home, made
from tests.damage.trials import Damage, Outcome, Reader, copied, files_of

CONTENTS = {
    "a zero byte in a name": b"MANIFEST-0000\x0005\n",
    "zero bytes": bytes(4096),
    "no UTF-8": b"\xff\xfe\xfd\n",
    "all bytes": bytes(range(256)),
    "a long name": b"M" * 300 + b"\n",
    "a huge name": b"x" * 1_000_000,
    "a huge number": b"MANIFEST-" + b"9" * 5000 + b"\n",
    "digits of another script": "MANIFEST-٣٤\n".encode(),
    "a negative number": b"MANIFEST--00005\n",
    "a path": b"../../x\n",
    "an absolute path": b"/etc/passwd\n",
    "two dots": b"..\n",
    "an end of line": b"\n",
    "nothing": b"",
    "nested": b"[" * 100_000,
}


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    with Reader() as reading:
        yield reading


def check(outcome: Outcome, where: str) -> None:
    assert outcome.untyped is None, f"{where}: {outcome.untyped}"
    assert outcome.died is None, where


def kind_of_file(file: Path) -> str:
    return file.suffix if file.suffix in (".log", ".sst") else file.name.partition("-")[0]


@pytest.mark.parametrize(("kind", "engine"), [("orders", "rocksdb"), ("clicks", "lmdb")])
def test_any_content_of_a_file(tmp_path: Path, reader: Reader, kind: str, engine: str) -> None:
    home = made(kind, engine, tmp_path)
    kinds = {kind_of_file(file): file for file in files_of(home.root)}
    assert len(kinds) == (8 if engine == "rocksdb" else 2), kinds
    for number, (file, what) in enumerate((f, w) for f in kinds.values() for w in CONTENTS):
        for read_only in (True, False) if file.name == "CURRENT" else (number % 2 == 0,):
            root = copied(home.root, tmp_path / "damaged" / "0_0")
            (root / file).write_bytes(CONTENTS[what])
            outcome = reader.read(kind=kind, engine=engine, path=str(root), read_only=read_only)
            where = f"{what} in {file}, read_only={read_only}"
            check(outcome, where)
            if outcome.read is not None and file.suffix != ".log":
                assert outcome.read == home.commits[-1], where
            if file.name == ".kstore.lock":
                assert outcome.read == home.commits[-1], where


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_file_that_names_no_manifest_is_a_moment_without_one(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "CURRENT").write_bytes(content)
    name, size = current_manifest(tmp_path)
    assert isinstance(name, str)
    assert size == -1 or content in (b"..\n", b"/etc/passwd\n", b"\n", b"")


@pytest.mark.parametrize("kind", ["orders", "clicks"])
def test_flips_in_the_heads_of_lmdbs_pages(tmp_path: Path, reader: Reader, kind: str) -> None:
    """Meta pages, heads of pages and of rows: LMDB may end the process, which is not its error."""
    home = made(kind, "lmdb", tmp_path)
    (data,) = [file for file in files_of(home.root) if file.name == "data.mdb"]
    pages = (home.root / data).stat().st_size // 4096
    chosen = random.Random(SEED)
    for _ in range(60 * TIMES):
        page = chosen.choice([0, 1, chosen.randrange(2, pages)])
        at = page * 4096 + chosen.randrange(152 if page < 2 else 48)
        root = copied(home.root, tmp_path / "damaged" / "0_0")
        damage = Damage("flip", data, at, chosen.randrange(8))
        damage.do(root)
        outcome = reader.read(kind=kind, engine="lmdb", path=str(root), read_only=at % 2 == 0)
        assert outcome.untyped is None, f"{damage}: {outcome.untyped}"


class CutRows:
    """A table whose keys have been cut, as by a flipped bit in the size that LMDB keeps of one."""

    rows = None

    def scan(self, bounds: Bounds) -> Iterator[tuple[list[bytes], list[bytes]]]:
        yield [b"\0\0\0"], [b"v"]

    def first(self, *_: object, **__: object) -> tuple[bytes, bytes]:
        return b"\0\0\0", b"v"


def test_a_key_that_is_shorter_than_the_id_of_its_segment() -> None:
    table = PrefixedTable(CutRows(), bytes(8), bytes(7) + b"\1")
    with pytest.raises(CorruptionError, match=r"has 3 bytes.*kstore verify"):
        list(table.scan(Bounds()))
    with pytest.raises(CorruptionError, match="has 3 bytes"):
        table.first()


def mutated(chosen: random.Random, home: Home, rows: list[tuple[bytes, bytes]]) -> Rows:
    """A row like one of these with one thing wrong, or one of its own making."""

    def blob(most: int) -> bytes:
        size = chosen.randrange(1, most)
        return bytes(chosen.choice([0, 0, 255, 1, 127, 128, size]) for _ in range(size))

    how = chosen.randrange(4) if rows else 0
    key, value = chosen.choice(rows) if rows else (b"", b"")
    if how == 0:
        key, value = blob(24), blob(40)
    elif how == 1:
        key = key[: chosen.randrange(1, len(key) + 1)]
    elif how == 2:
        value = value[: chosen.randrange(len(value) + 1)]
    elif value:
        at = chosen.randrange(len(value))
        value = value[:at] + bytes([chosen.choice([0, 255, 128, 127])]) + value[at + 1 :]
    return Rows([key], [value])


@pytest.mark.parametrize("kind", SPECS)
def test_any_row(tmp_path: Path, reader: Reader, kind: str) -> None:
    home = made(kind, "lmdb", tmp_path)
    chosen = random.Random(f"{SEED}{kind}")
    for number in range(40 * TIMES):
        root = copied(home.root, tmp_path / "damaged" / "0_0")
        with closing(LMDBEngine().open(root, kind)) as database:
            name = chosen.choice(database.namespaces())
            namespace = database.namespace(name)
            rows = [row for chunk in namespace.scan() for row in zip(*chunk, strict=True)]
            batch = mutated(chosen, home, rows)
            database.write({name: batch})
        outcome = reader.read(kind=kind, engine="lmdb", path=str(root), read_only=number % 3 > 0)
        check(outcome, f"{name}: {batch}")


KEYS = [
    b"t-" + b"9" * 5000,
    b"t-99999999999",
    "t-٣".encode(),
    "t-²".encode(),
    b"\xff-1",
    b"-1",
    b"t-",
    b"position",
    b"status",
    b"kstore.stream-time",
    b"kstore.note.x",
    b"kstore.x-1",
]


def specs_gone_wrong(chosen: random.Random) -> Iterator[bytes]:
    odd = [None, [], {}, "x", 1e300, -1, True, 10**30, float("nan"), "\ud800", [[]], {"a": 1}]
    for spec in SPECS.values():
        said = spec.describe()
        for name in said:
            yield json.dumps(said | {name: chosen.choice(odd)}).encode()
        text = json.dumps(said).encode()
        for _ in range(20):
            at = chosen.randrange(len(text))
            wrong = chosen.choice([b"[", b"null", b"1e999", b"9" * 5000, b"\xff", b'"', b""])
            yield text[:at] + wrong + text[at + 1 :]
    yield b"[" * 100_000


def test_any_entries_of_the_offsets_namespace() -> None:
    chosen = random.Random(SEED)
    values = [bytes(chosen.choice([0, 255, 1, 128]) for _ in range(n)) for n in range(24)]
    entries = [(key, value) for key in KEYS for value in values]
    entries += [(b"kstore.spec", spec) for spec in specs_gone_wrong(chosen)]
    refused = 0
    with closing(make_engine("memory").open(Path("x"), "s")) as database:
        offsets = database.namespace("offsets")
        for key, value in entries:
            database.write({"offsets": Rows([key], [value], [(b"", None)])})
            read_entries(offsets, "s")
            try:
                read_record(offsets)
            except KStoreError:
                refused += 1
    assert refused > len(entries) / 4


def test_the_number_of_a_partition_fits_into_kafkas() -> None:
    with closing(make_engine("memory").open(Path("x"), "s")) as database:
        offsets = database.namespace("offsets")
        for number, fits in ((b"0", True), (b"2147483647", True), (b"2147483648", False)):
            key = b"t-" + number
            database.write({"offsets": Rows([key], [bytes(8)], [(b"", None)])})
            if fits:
                assert read_record(offsets).offsets == {("t", int(number)): 0}
            else:
                with pytest.raises(CorruptionError, match="contains no partition"):
                    read_record(offsets)

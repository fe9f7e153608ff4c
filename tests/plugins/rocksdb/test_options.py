"""The options that are on disk in the end, against those that Kafka Streams sets."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kstore_core.errors import EngineError, SpecError
from kstore_rocksdb import RocksDBEngine, RocksDBOptions
from kstore_rocksdb.errors import translate
from tests.support.golden import GOLDEN

ROWS_FAMILY = "keyValueWithTimestampAndHeaders"
OURS_ON_PURPOSE = {
    # the binding has no way to set it
    ("DBOptions", "info_log_level"),
    # lookups are faster
    ("DBOptions", "allow_mmap_reads"),
    ("CFOptions/default", "memtable_whole_key_filtering"),
    ("CFOptions/default", "memtable_prefix_bloom_size_ratio"),
    (f"CFOptions/{ROWS_FAMILY}", "memtable_whole_key_filtering"),
    (f"CFOptions/{ROWS_FAMILY}", "memtable_prefix_bloom_size_ratio"),
    ("TableOptions/BlockBasedTable/default", "block_size"),
    (f"TableOptions/BlockBasedTable/{ROWS_FAMILY}", "block_size"),
    # the other mode loses rows in silence when the middle of the log is damaged
    ("DBOptions", "wal_recovery_mode"),
    # information logs of a thousand openings are of no use
    ("DBOptions", "keep_log_file_num"),
    # of the machine
    ("DBOptions", "max_background_jobs"),
    # of the number of table files
    ("DBOptions", "max_file_opening_threads"),
    # the C interface names the filter and leaves out its bits
    ("TableOptions/BlockBasedTable/default", "filter_policy"),
    (f"TableOptions/BlockBasedTable/{ROWS_FAMILY}", "filter_policy"),
}


def options_on_disk(directory: Path) -> dict[str, dict[str, str]]:
    """The newest OPTIONS file by section: ``CFOptions/offsets``."""
    sections: dict[str, dict[str, str]] = {}
    for line in max(directory.glob("OPTIONS-*")).read_text().splitlines():
        text = line.strip()
        if text.startswith("["):
            name, _, argument = text.strip("[]").partition(" ")
            section = sections.setdefault("/".join(filter(None, [name, argument.strip('"')])), {})
        elif "=" in text and not text.startswith("#"):
            key, _, value = text.partition("=")
            section[key] = value
    return sections


def made(root: Path, **options: Any) -> dict[str, dict[str, str]]:
    database = RocksDBEngine(options).open(root, "s")
    database.namespace(ROWS_FAMILY)
    database.namespace("offsets")
    database.close()
    return options_on_disk(root / "rocksdb" / "s")


def test_the_defaults_are_those_of_kafka_streams(tmp_path: Path) -> None:
    kafka = json.loads((GOLDEN / "rocksdb_options.json").read_text())["full_OPTIONS_of_kv_headers"]
    ours = made(tmp_path)
    assert ours.keys() == kafka.keys()
    different = {
        (section, key)
        for section, values in kafka.items()
        for key, value in values.items()
        if section != "Version" and ours[section].get(key) != value
    }
    assert different <= OURS_ON_PURPOSE
    assert ours["DBOptions"]["wal_recovery_mode"] == "kTolerateCorruptedTailRecords"
    assert ours["DBOptions"]["keep_log_file_num"] == "10"
    for family in ("default", ROWS_FAMILY):
        assert ours[f"TableOptions/BlockBasedTable/{family}"]["filter_policy"] == "bloomfilter"


def test_the_profile_kafka_has_the_options_of_kafka_streams(tmp_path: Path) -> None:
    kafka = json.loads((GOLDEN / "rocksdb_options.json").read_text())["full_OPTIONS_of_kv_headers"]
    ours = made(tmp_path, profile="kafka")
    speed = {
        "allow_mmap_reads",
        "block_size",
        "memtable_prefix_bloom_size_ratio",
        "memtable_whole_key_filtering",
    }
    for section, values in kafka.items():
        for key in speed & values.keys():
            assert ours[section][key] == values[key], key
    assert RocksDBEngine({"profile": "kafka"}).options == RocksDBOptions(
        block_size_bytes=4096, mmap_reads=False, write_buffer_filter=False
    )
    assert RocksDBEngine({"profile": "kstore"}).options == RocksDBOptions()
    mixed = RocksDBEngine({"mmap_reads": True, "bloom_bits": 0, "profile": "kafka"}).options
    assert mixed == RocksDBOptions(
        block_size_bytes=4096, mmap_reads=True, bloom_bits=0, write_buffer_filter=False
    )


def test_options_hold_for_existing_families_after_a_reopen(tmp_path: Path) -> None:
    """Without a list of families the binding takes the options that it finds."""
    made(tmp_path)
    ours = made(tmp_path, write_buffer_bytes=1 << 20, compaction="level", block_size_bytes=8192)
    for family in ("default", ROWS_FAMILY):
        assert ours[f"CFOptions/{family}"]["write_buffer_size"] == str(1 << 20)
        assert ours[f"CFOptions/{family}"]["compaction_style"] == "kCompactionStyleLevel"
        assert ours[f"TableOptions/BlockBasedTable/{family}"]["block_size"] == "8192"
    assert ours["CFOptions/offsets"]["compaction_style"] == "kCompactionStyleLevel"  # its default


def test_each_table_file_has_a_thread_that_opens_it(tmp_path: Path) -> None:
    seen = set()
    for count in range(4):
        files = len(list((tmp_path / "rocksdb" / "s").glob("*.sst")))
        seen.add(files)
        assert made(tmp_path)["DBOptions"]["max_file_opening_threads"] == str(max(files, 1))
        with closing(RocksDBEngine().open(tmp_path, "s")) as database:
            database.load(ROWS_FAMILY, [([b"%d" % count], [b"v"])])
    assert max(seen) > 1


def test_every_option_arrives(tmp_path: Path) -> None:
    ours = made(
        tmp_path,
        write_buffer_bytes=2 << 20,
        max_write_buffers=5,
        write_buffer_filter=False,
        block_cache_bytes=1 << 20,
        block_size_bytes=16384,
        bloom_bits=0,
        optimize_filters_for_hits=False,
        compression="lz4",
        parallelism=3,
        max_open_files=100,
        mmap_reads=False,
        offsets_write_buffer_bytes=128 * 1024,
    )
    rows, table = ours["CFOptions/default"], ours["TableOptions/BlockBasedTable/default"]
    assert rows["write_buffer_size"] == str(2 << 20)
    assert rows["max_write_buffer_number"] == "5"
    assert rows["memtable_whole_key_filtering"] == "false"
    assert float(rows["memtable_prefix_bloom_size_ratio"]) == 0
    assert rows["optimize_filters_for_hits"] == "false"
    assert rows["compression"] == "kLZ4Compression"
    assert table["block_size"] == "16384"
    assert table["filter_policy"] == "nullptr"
    assert ours["DBOptions"]["max_background_jobs"] == "3"
    assert ours["DBOptions"]["max_open_files"] == "100"
    assert ours["DBOptions"]["allow_mmap_reads"] == "false"
    assert ours["CFOptions/offsets"]["write_buffer_size"] == str(128 * 1024)
    assert ours["CFOptions/offsets"]["compression"] == "kNoCompression"


@pytest.mark.parametrize("compression", ["none", "lz4", "snappy", "zstd"])
def test_compressions_are_built_in(tmp_path: Path, compression: str) -> None:
    database = RocksDBEngine({"compression": compression}).open(tmp_path, "s")
    database.load("default", [([b"%08d" % i for i in range(60_000)], [b"v" * 50] * 60_000)])
    assert database.namespace("default").get(b"00059999") == b"v" * 50
    database.close()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"block_cache": 1}, "block_cache_bytes"),
        ({"bloom_bits": "10"}, "takes int"),
        ({"compaction": "fifo"}, "'universal', 'level'"),
        ({"compression": "gzip"}, "'zstd'"),
        ({"write_buffer_bytes": 0}, "at least"),
        ({"max_write_buffers": 1}, "at least 2"),
        ({"max_open_files": 0}, "at least"),
        ({"parallelism": -1}, "at least 0"),
        ({"profile": "fast"}, "option 'profile' must be one of 'kstore', 'kafka', not 'fast'"),
        ({"profile": "kafka", "mmap_read": True}, "did you mean 'mmap_reads'"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(SpecError, match=text):
        RocksDBEngine(given)


def test_every_option_is_documented() -> None:
    documented = RocksDBOptions.__doc__ or ""
    page = (GOLDEN.parents[1] / "docs" / "engines" / "rocksdb.md").read_text()
    for name in RocksDBOptions.__dataclass_fields__:
        assert f"{name} : " in documented
        assert f"`{name}`" in page


def test_a_file_that_cannot_be_mapped_names_the_option() -> None:
    native = Exception("IO error: while mmap file for read: /s/000009.sst: No such device")
    error = translate(native, "open it", Path("/s"))
    assert type(error) is EngineError
    assert "Pass the option mmap_reads=False" in str(error)

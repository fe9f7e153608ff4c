"""The commands on directories that Kafka Streams wrote."""

import pytest

from kstore_core.cli.output.rendering import json_value
from tests.support.golden import manifest, unhex, unhex_headers

VERSIONED = ("--shape", "versioned", "--history-retention", "60s", "--segment-interval", "10s")


@pytest.mark.parametrize(
    ("name", "seen", "options"),
    [
        ("kv_plain", None, ("--shape", "key-value")),
        ("kv_timestamped", "timestamped", ()),
        ("kv_headers", "timestamped_headers", ()),
        ("versioned", None, VERSIONED),
    ],
)
def test_inspect_tells_what_can_be_seen(run, golden, name, seen, options):
    root = golden(name)
    ran = run("inspect", root, "--json")
    assert ran.code == 0
    (store,) = ran.document["directories"][0]["stores"]
    assert (store["name"], store["format"]) == (name, seen)
    assert store["known_from"] == (None if seen is None else "namespaces")
    assert store["offsets"]
    asked = run("dump", root, name)
    if seen is None:
        assert asked.code == 2
        assert "--shape key-value" in asked.err
        assert "--history-retention" in asked.err
    else:
        assert asked.code == 0
        assert "according to its namespaces" in asked.err
    assert run("dump", root, name, *options).code == 0


def shown(record):
    """A record of the manifest, whose bytes are hex, as the commands print it."""
    found = dict(record, value=json_value(unhex(record["value"])))
    if "headers" in record:
        found["headers"] = [
            [name, json_value(data)] for name, data in unhex_headers(record["headers"])
        ]
    return found


@pytest.mark.parametrize(
    ("name", "options"),
    [("kv_plain", ("--shape", "key-value")), ("kv_timestamped", ()), ("kv_headers", ())],
)
def test_dump_prints_what_kafka_reads(run, golden, name, options):
    wanted = []
    for line in manifest(name)["content"]:
        record = line["value"] if isinstance(line["value"], dict) else {"value": line["value"]}
        wanted.append({"key": json_value(unhex(line["key"])), **shown(record)})
    assert wanted
    assert run("dump", golden(name), name, *options, "--json").documents == wanted


def test_history_and_dump_of_a_versioned_store_print_what_kafka_reads(run, golden):
    root = golden("versioned")
    latest = []
    for line in manifest("versioned")["content"]:
        key = json_value(unhex(line["key"]))
        versions = [{"key": key, **shown(version)} for version in line["all_versions"]]
        arguments = (root, "versioned", "--key-hex", line["key"], *VERSIONED, "--json")
        assert run("history", *arguments).documents == versions
        if line["latest"] is not None:
            latest.append({"key": key, **shown(line["latest"])})
    assert latest
    assert run("dump", root, "versioned", *VERSIONED, "--json").documents == latest


def test_a_segment_interval_that_versions_do_not_fit_is_refused(run, golden):
    described = (*VERSIONED[:4], "--segment-interval", "20s")
    for command in ("dump", "migrate"):
        ran = run(command, golden("versioned"), "versioned", *described)
        assert ran.code == 2
        assert "segments of 20000 ms, so --shape or --segment-interval differs from" in ran.err


def test_a_versioned_store_needs_its_retention(run, golden):
    root = golden("versioned")
    ran = run("dump", root, "versioned", "--shape", "versioned")
    assert ran.code == 2
    assert "--history-retention" in ran.err


HALF = "kv_half_migrated_timestamped_to_headers"


def test_a_half_upgraded_store_is_read_and_named(run, golden):
    root = golden(HALF)
    (store,) = run("inspect", root, "--json").document["directories"][0]["stores"]
    assert (store["format"], store["known_from"]) == ("timestamped_headers", "namespaces")
    assert set(store["older_rows"]) == {"timestamped"}
    said = "rows still have the format timestamped; kstore upgrade converts them"
    assert said in run("inspect", root).out
    ran = run("dump", root, HALF, "--json")
    wanted = [
        {"key": json_value(unhex(line["key"])), **shown(line["value"])}
        for line in manifest(HALF)["content"]
    ]
    assert ran.documents == wanted
    assert f"the upgrade of {HALF!r} is unfinished; rows still have the format timestamped" in (
        ran.err
    )
    old = next(line for line in manifest(HALF)["raw"] if line["cf"] == "keyValueWithTimestamp")
    found = run("get", root, HALF, "--key-hex", old["key"], "--json").document
    assert found == next(row for row in wanted if row["key"] == json_value(unhex(old["key"])))

"""Names and settings of changelog topics."""

from __future__ import annotations

import pytest

from kstore_core import stores
from kstore_core.changelog import LogConfig, changelog_topic, topic_config
from kstore_core.errors import SpecError

DAY = 86_400_000
CREATE_TIME = {"message.timestamp.type": "CreateTime"}


@pytest.mark.parametrize(
    ("spec", "config"),
    [
        (stores.key_value("s"), {"cleanup.policy": "compact"}),
        (stores.timestamped_key_value_with_headers("s"), {"cleanup.policy": "compact"}),
        (
            stores.versioned_key_value_with_headers("s", 5000),
            {"cleanup.policy": "compact", "min.compaction.lag.ms": str(5000 + DAY)},
        ),
        (
            stores.timestamped_window("s", 9000, 1000),
            {"cleanup.policy": "compact,delete", "retention.ms": str(9000 + DAY)},
        ),
        (
            stores.window("s", 9000, 1000, retain_duplicates=True),
            {"cleanup.policy": "delete", "retention.ms": str(9000 + DAY)},
        ),
        (
            stores.session_with_headers("s", 2**63 - 1),
            {"cleanup.policy": "compact,delete", "retention.ms": str(2**63 - 1)},
        ),
    ],
    ids=lambda part: f"{part.shape}-{part.format.name}" if hasattr(part, "shape") else "",
)
def test_the_settings_are_those_of_kafka_streams(spec: object, config: dict[str, str]) -> None:
    assert topic_config(spec) == CREATE_TIME | config  # type: ignore[arg-type]
    LogConfig.of_topic(topic_config(spec))  # type: ignore[arg-type]


def test_settings_can_be_overridden() -> None:
    spec = stores.session("s", 1000)
    assert topic_config(spec, additional_retention_ms=5)["retention.ms"] == "1005"
    assert topic_config(spec, {"retention.ms": "-1"})["retention.ms"] == "-1"


def test_a_log_in_files_follows_the_settings() -> None:
    assert LogConfig.of_topic({}) == LogConfig()
    assert LogConfig.of_topic(
        {
            "cleanup.policy": "compact, delete",
            "retention.ms": "7",
            "min.compaction.lag.ms": "8",
            "delete.retention.ms": "9",
            "segment.bytes": "10",
            "compression.type": "zstd",
        }
    ) == LogConfig(True, 7, 8, 9, 10, "zstd")
    assert LogConfig.of_topic({"retention.ms": "7"}).retention_ms is None
    only_delete = LogConfig.of_topic({"cleanup.policy": "delete", "retention.ms": "-1"})
    assert (only_delete.compact, only_delete.retention_ms) == (False, None)
    assert LogConfig.of_topic({"compression.type": "producer"}).compression == "none"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"cleanup.policy": "vacuum"},
            "'delete' or 'compact,delete', not 'vacuum'",
        ),
        ({"segment.ms": "1"}, "a changelog in files does not support the setting segment.ms=1"),
        ({"message.timestamp.type": "LogAppendTime"}, "the setting message.timestamp.type=LogApp"),
        ({"retention.ms": "soon"}, "retention.ms must be an integer, not soon"),
        ({"segment.bytes": "0"}, "segment_bytes must be 1 or more, not 0"),
        ({"delete.retention.ms": "-2"}, "delete_retention_ms must be 0 or more, not -2"),
        ({"compression.type": "brotli"}, "compression must be 'none', 'gzip'"),
    ],
)
def test_settings_that_files_cannot_have_are_refused(config: dict[str, str], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        LogConfig.of_topic(config)


def test_names() -> None:
    assert changelog_topic("app", "orders") == "app-orders-changelog"
    for application, store in [("", "s"), ("a", ""), ("a/b", "s"), ("a" * 240, "s"), ("..", "/")]:
        with pytest.raises(SpecError, match="topic"):
            changelog_topic(application, store)

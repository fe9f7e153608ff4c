"""The changelogs. A changelog is a log of a store's changes, and a restore reads this log.

See docs/changelogs.md.
"""

from typing import TYPE_CHECKING

from kstore_core.lazy import lazily

if TYPE_CHECKING:
    from kstore_core.changelog.files.changelog import FileChangelog
    from kstore_core.changelog.files.directory import ChangelogDirectory, Changelogs
    from kstore_core.changelog.kafka.changelog import KafkaChangelog
    from kstore_core.changelog.kafka.directory import KafkaChangelogs
    from kstore_core.changelog.protocol import Changelog
    from kstore_core.changelog.topic import LogConfig, changelog_topic, topic_config

__all__ = [
    "Changelog",
    "ChangelogDirectory",
    "Changelogs",
    "FileChangelog",
    "KafkaChangelog",
    "KafkaChangelogs",
    "LogConfig",
    "changelog_topic",
    "topic_config",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        **dict.fromkeys(__all__, "changelog.topic"),
        "Changelog": "changelog.protocol",
        "ChangelogDirectory": "changelog.files.directory",
        "Changelogs": "changelog.files.directory",
        "FileChangelog": "changelog.files.changelog",
        "KafkaChangelog": "changelog.kafka.changelog",
        "KafkaChangelogs": "changelog.kafka.directory",
    },
)

"""Changelogs of stores: the topic by application and name, the partition by the task."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from kstore_core.changelog.files.changelog import FileChangelog
from kstore_core.changelog.protocol import Changelog
from kstore_core.changelog.topic import LogConfig, changelog_topic, topic_config
from kstore_core.engine import Durability
from kstore_core.errors import SpecError
from kstore_core.offsets.entries import Partition
from kstore_core.spec import StoreSpec

__all__ = [
    "ChangelogDirectory",
    "Changelogs",
    "is_topic_of",
    "log_at",
    "logs_of",
    "other_store",
    "partition_of",
    "topics_of",
]

_TASK = re.compile(r"(?:.+__)?\d+_(\d+)")
"""The name of a task directory: of the topology, of the group of subtopologies, the partition."""

_LOG = re.compile(r"(.+)-(0|[1-9][0-9]*)")
"""The name of a log's directory: of the topic, the partition."""


class Changelogs(Protocol):
    """The changelogs of a state directory's stores."""

    def changelog_of(self, spec: StoreSpec, task: Path, durability: Durability) -> Changelog:
        """Open a store's changelog; the caller closes it.

        Parameters
        ----------
        spec : StoreSpec
        task : Path
            The state directory.
        durability : {"process", "power", "changelog"}
            The failures that a commit survives.
        """


class ChangelogDirectory:
    """Changelogs in files, the partitions of all topics side by side in one directory.

    Parameters
    ----------
    root : path-like
    application_id : str, optional
        Left out, the name of the directory that the state directory is in, as in Kafka Streams'
        ``<state.dir>/<application.id>/0_3``.
    partition : int, optional
        Left out, the last number in the state directory's name: of ``0_3`` it is 3.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        application_id: str | None = None,
        partition: int | None = None,
    ) -> None:
        self.root = Path(root)
        self.application_id = application_id
        self.partition = partition

    def __repr__(self) -> str:
        return f"<ChangelogDirectory {str(self.root)!r}>"

    def changelog_of(
        self, spec: StoreSpec, task: Path, durability: Durability = "process"
    ) -> FileChangelog:
        """Open a store's changelog, made with its topic's settings where it is missing.

        Raises
        ------
        SpecError
            The state directory's name says no partition, and none is given; the topic's name is
            none that Kafka would take; or a setting that files do not have.
        """
        topic = changelog_topic(self.application_id or task.parent.name, spec.name)
        return FileChangelog(
            self.root,
            topic,
            self._partition_of(task),
            config=LogConfig.of_topic(topic_config(spec, dict(spec.changelog))),
            durability=durability,
        )

    def _partition_of(self, task: Path) -> int:
        named = self.partition if self.partition is not None else partition_of(task)
        if named is None:
            raise SpecError(
                f"{task} is not named after a task, such as 0_3, which would tell the partition of "
                f"its changelogs; pass changelog=ChangelogDirectory({str(self.root)!r}, "
                "partition=0)"
            )
        return named


def partition_of(task: Path) -> int | None:
    """The partition that a state directory's name tells; None where it is not a task's."""
    named = _TASK.fullmatch(task.name)
    return None if named is None else int(named[1])


def log_at(place: Path) -> Partition | None:
    """The topic and partition that a directory is named after; None where it is not a log's."""
    named = _LOG.fullmatch(place.name)
    return None if named is None else (named[1], int(named[2]))


def is_topic_of(topic: str, store: str) -> bool:
    """Return True if a topic is named as a store's changelog, of whatever application."""
    return len(topic) > len(end := f"-{store}-changelog") and topic.endswith(end)


def topics_of(topics: Iterable[str], store: str, application: str) -> list[str]:
    """The topics that a store's changelog may be: its application's own, or else all, in order."""
    found = {topic for topic in topics if is_topic_of(topic, store)}
    own = f"{application}-{store}-changelog"
    return [own] if own in found else sorted(found)


def other_store(topic: str, store: str, application: str) -> str | None:
    """The store whose changelog a topic may be as well; None where it can only be this one's.

    ``app-b-a-changelog`` is that of ``a`` in ``app-b``, or of ``b-a`` in ``app``.
    """
    prefix = topic.removesuffix(f"-{store}-changelog")
    _, hyphen, rest = prefix.partition("-")
    return f"{rest}-{store}" if hyphen and prefix != application else None


def logs_of(
    root: Path, store: str, application: str, partition: int | None = None
) -> list[Partition]:
    """A store's logs that are side by side in ``root``, of the topics that `topics_of` tells.

    Parameters
    ----------
    partition : int, optional
        Left out, all of them count.
    """
    found = [log for log in map(log_at, sorted(root.iterdir())) if log]
    topics = topics_of((topic for topic, _ in found), store, application)
    return [log for log in found if log[0] in topics and partition in (None, log[1])]

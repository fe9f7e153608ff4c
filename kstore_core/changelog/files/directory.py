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
    "partition_for",
    "partition_of",
    "topics_of",
]

_TASK = re.compile(r"(?:.+__)?\d+_(\d+)")
"""The name of a task directory: topology (optional), subtopology, partition."""

_LOG = re.compile(r"(.+)-(0|[1-9][0-9]*)")
"""The name of a log's directory: topic, partition."""


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
        Default: the name of the directory that the state directory is in, as in Kafka Streams'
        ``<state.dir>/<application.id>/0_3``.
    partition : int, optional
        Default: the last number in the state directory's name, 3 for ``0_3``.
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
        """Open a store's changelog; a missing one is made with its topic's settings.

        Raises
        ------
        SpecError
            The partition is unknown: none is given, and the state directory's name has none. Or
            Kafka does not allow the topic's name. Or a log in files does not have a setting.
        """
        topic = changelog_topic(self.application_id or task.parent.name, spec.name)
        return FileChangelog(
            self.root,
            topic,
            partition_for(task, self.partition, f"ChangelogDirectory({str(self.root)!r}"),
            config=LogConfig.of_topic(topic_config(spec, dict(spec.changelog))),
            durability=durability,
        )


def partition_of(task: Path) -> int | None:
    """Return the partition in a state directory's name; None if it is not the name of a task."""
    named = _TASK.fullmatch(task.name)
    return None if named is None else int(named[1])


def partition_for(task: Path, given: int | None, changelogs: str) -> int:
    """Return the given partition, or the one in the name of a state directory.

    Parameters
    ----------
    changelogs : str
        The expression of the changelogs, up to where ``partition=`` is to be added.

    Raises
    ------
    SpecError
        No partition is given, and the directory is not named after a task.
    """
    partition = partition_of(task) if given is None else given
    if partition is None:
        raise SpecError(
            f"{task} is not named after a task, such as 0_3, so the partition of its changelogs is "
            f"unknown; pass changelog={changelogs}, partition=0)"
        )
    return partition


def log_at(place: Path) -> Partition | None:
    """Return the topic and partition in a directory's name; None if it is not the name of a log."""
    named = _LOG.fullmatch(place.name)
    return None if named is None else (named[1], int(named[2]))


def is_topic_of(topic: str, store: str) -> bool:
    """Return True if a topic has the name of a store's changelog, for any application."""
    return len(topic) > len(end := f"-{store}-changelog") and topic.endswith(end)


def topics_of(topics: Iterable[str], store: str, application: str) -> list[str]:
    """The possible changelogs of a store: its application's topic, else all such topics, sorted."""
    found = {topic for topic in topics if is_topic_of(topic, store)}
    own = f"{application}-{store}-changelog"
    return [own] if own in found else sorted(found)


def other_store(topic: str, store: str, application: str) -> str | None:
    """Another store that a changelog topic may belong to; None if there can be none.

    ``app-b-a-changelog`` belongs to ``a`` in ``app-b``, or to ``b-a`` in ``app``.
    """
    prefix = topic.removesuffix(f"-{store}-changelog")
    _, hyphen, rest = prefix.partition("-")
    return f"{rest}-{store}" if hyphen and prefix != application else None


def logs_of(
    root: Path, store: str, application: str, partition: int | None = None
) -> list[Partition]:
    """Return a store's logs in ``root``, of the topics that `topics_of` returns.

    Parameters
    ----------
    partition : int, optional
        Default: all partitions.
    """
    found = [log for log in map(log_at, sorted(root.iterdir())) if log]
    topics = topics_of((topic for topic, _ in found), store, application)
    return [log for log in found if log[0] in topics and partition in (None, log[1])]

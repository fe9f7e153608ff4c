"""The names of stores' changelogs.

The topic contains the application ID and the store's name. The partition is the task's partition.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kstore_core.changelog.protocol import Changelog
from kstore_core.changelog.topic import LogConfig, changelog_topic, topic_config
from kstore_core.engine import Durability
from kstore_core.errors import SpecError
from kstore_core.offsets.entries import Partition
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from kstore_core.changelog.files.changelog import FileChangelog

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
"""The pattern of a task directory's name: topology (optional), subtopology, partition."""

_LOG = re.compile(r"(.+)-(0|[1-9][0-9]*)")
"""The pattern of the name of a log's directory: topic, partition."""


class Changelogs(Protocol):
    """The interface of an object that opens the changelogs of a state directory's stores."""

    def changelog_of(self, spec: StoreSpec, task: Path, durability: Durability) -> Changelog:
        """Open the changelog of a store. The caller must close the changelog.

        Parameters
        ----------
        spec : StoreSpec
        task : Path
            The path of the state directory.
        durability : {"process", "power", "changelog"}
            The failures that a commit survives.
        """


class ChangelogDirectory:
    """A directory of changelogs in files, with one subdirectory for each partition of each topic.

    Parameters
    ----------
    root : path-like
    application_id : str, optional
        The application ID in the names of the topics. Default: the name of the directory that
        contains the state directory, as in Kafka Streams' ``<state.dir>/<application.id>/0_3``.
    partition : int, optional
        The partition of the changelogs. Default: the last number in the state directory's name,
        which is 3 for ``0_3``.
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
        """Open the changelog of a store, and create the changelog if it is missing.

        The log gets the settings that Kafka Streams gives to the topic, with the changes in
        ``spec.changelog``.

        Raises
        ------
        SpecError
            No partition is given, and the state directory's name contains no partition. Or Kafka
            does not allow the topic's name. Or a log in files does not support a setting.
        """
        from kstore_core.changelog.files.changelog import FileChangelog

        topic = changelog_topic(self.application_id or task.parent.name, spec.name)
        return FileChangelog(
            self.root,
            topic,
            partition_for(task, self.partition, f"ChangelogDirectory({str(self.root)!r}"),
            config=LogConfig.of_topic(topic_config(spec, dict(spec.changelog))),
            durability=durability,
        )


def partition_of(task: Path) -> int | None:
    """Return the partition in the name of a state directory, or None if the name has none."""
    named = _TASK.fullmatch(task.name)
    return None if named is None else int(named[1])


def partition_for(task: Path, given: int | None, changelogs: str) -> int:
    """Return ``given``, or the partition in the name of a state directory if ``given`` is None.

    Parameters
    ----------
    task : Path
        The state directory.
    given : int or None
    changelogs : str
        The call that made the changelogs, for the error message, without the closing bracket:
        ``ChangelogDirectory('logs'``. The message appends the argument ``partition=``.

    Raises
    ------
    SpecError
        No partition is given, and the directory is not named after a task.
    """
    partition = partition_of(task) if given is None else given
    if partition is None:
        raise SpecError(
            f"the partition of the changelogs is unknown, because the state directory {task} is "
            "not named after a task, such as 0_3. Pass the partition: "
            f"changelog={changelogs}, partition=0)"
        )
    return partition


def log_at(place: Path) -> Partition | None:
    """Return the topic and partition in a log directory's name, or None for another name."""
    named = _LOG.fullmatch(place.name)
    return None if named is None else (named[1], int(named[2]))


def is_topic_of(topic: str, store: str) -> bool:
    """Return True if a topic's name is that of a store's changelog, for any application ID."""
    return len(topic) > len(end := f"-{store}-changelog") and topic.endswith(end)


def topics_of(topics: Iterable[str], store: str, application: str) -> list[str]:
    """Return the topics that may be the changelog of a store.

    If the application has such a topic, the result is only that topic. If it has none, the result
    is the sorted list of the topics whose names fit the store with any application ID.
    """
    found = {topic for topic in topics if is_topic_of(topic, store)}
    own = f"{application}-{store}-changelog"
    return [own] if own in found else sorted(found)


def other_store(topic: str, store: str, application: str) -> str | None:
    """Return the name of another store to which a changelog topic may belong.

    For example, ``app-b-a-changelog`` may belong to the store ``a`` of the application ``app-b``,
    or to the store ``b-a`` of the application ``app``. Return None if no other store is possible.
    """
    prefix = topic.removesuffix(f"-{store}-changelog")
    _, hyphen, rest = prefix.partition("-")
    return f"{rest}-{store}" if hyphen and prefix != application else None


def logs_of(
    root: Path, store: str, application: str, partition: int | None = None
) -> list[Partition]:
    """Return the topics and partitions of a store's logs in the directory ``root``.

    Parameters
    ----------
    partition : int, optional
        Return only this partition of each topic. Default: all partitions.
    """
    found = [log for log in map(log_at, sorted(root.iterdir())) if log]
    topics = topics_of((topic for topic, _ in found), store, application)
    return [log for log in found if log[0] in topics and partition in (None, log[1])]

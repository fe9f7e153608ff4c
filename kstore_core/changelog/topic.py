"""The name and the settings of a store's changelog topic, as in Kafka Streams."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from kstore_core.checks import check_choice
from kstore_core.codec.log.batch.compression import CODECS
from kstore_core.errors import SpecError
from kstore_core.spec import StoreSpec

__all__ = ["ADDITIONAL_RETENTION_MS", "LogConfig", "changelog_topic", "check_topic", "topic_config"]

ADDITIONAL_RETENTION_MS = 86_400_000
"""The time in ms for which a log keeps records after the retention of its store has ended.

Kafka Streams adds this time because clocks may differ.
"""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_MAX_MS = 2**63 - 1
_MIB = 1024 * 1024


def changelog_topic(application_id: str, store: str) -> str:
    """Return the name of a store's changelog topic, ``<application id>-<store>-changelog``.

    Raises
    ------
    SpecError
        Kafka does not allow the name, or an argument is empty.
    """
    if not application_id or not store:
        raise SpecError(
            "the application ID and the store's name must not be empty for a changelog topic; they "
            f"are {application_id!r} and {store!r}"
        )
    return check_topic(f"{application_id}-{store}-changelog")


def check_topic(name: str) -> str:
    """Return the name of a topic, or raise an error if Kafka does not allow the name.

    A name must have 1 to 249 characters of ``A-Za-z0-9._-``, and must not be ``.`` or ``..``.

    Raises
    ------
    SpecError
        Kafka does not allow the name.
    """
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise SpecError(
            f"{name!r} cannot be the name of a topic. A name must have 1 to 249 characters of "
            "A-Za-z0-9._-, and must not be '.' or '..'"
        )
    return name


def topic_config(
    spec: StoreSpec,
    overrides: Mapping[str, str] | None = None,
    *,
    additional_retention_ms: int = ADDITIONAL_RETENTION_MS,
) -> dict[str, str]:
    """Return the settings that Kafka Streams gives to a store's changelog topic.

    Parameters
    ----------
    spec : StoreSpec
    overrides : mapping of str to str, optional
        Settings that replace the returned settings or are added to them.
    additional_retention_ms : int
        The time in ms for which the log of a window or session store keeps records after the
        store's retention; Kafka's setting ``windowstore.changelog.additional.retention.ms``.

    Returns
    -------
    dict of str to str
        The settings by Kafka's names. The log of a key-value store is compacted. The log of a
        versioned store is compacted, except records that are younger than the history retention
        plus one day. The log of a window or session store is compacted, and records older than the
        retention plus `additional_retention_ms` are deleted. The log of a window store that retains
        duplicates is not compacted, because the store has several rows for a key and a window.
    """
    config = {"message.timestamp.type": "CreateTime", "cleanup.policy": "compact"}
    if spec.shape == "versioned":
        assert spec.history_retention_ms is not None
        lag = min(spec.history_retention_ms + ADDITIONAL_RETENTION_MS, _MAX_MS)
        config["min.compaction.lag.ms"] = str(lag)
    elif spec.shape in ("window", "session"):
        assert spec.retention_ms is not None
        policy = "delete" if spec.retain_duplicates else "compact,delete"
        config["cleanup.policy"] = policy
        config["retention.ms"] = str(min(spec.retention_ms + additional_retention_ms, _MAX_MS))
    return config | dict(overrides or {})


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of a log in files.

    The defaults are Kafka's for a compacted topic, except that segments are smaller.

    Attributes
    ----------
    compact : bool
        If True, compaction keeps only the last of the records with equal keys.
    retention_ms : int or None
        The maximum age in ms of the newest record of a closed segment. A segment whose newest
        record is older is deleted. None means no limit.
    min_compaction_lag_ms : int
        The age in ms below which compaction must not remove a record.
    delete_retention_ms : int
        The time in ms for which a tombstone stays after the first compaction that reads it. A
        reader that began at the start of the log can read the tombstone during this time.
    segment_bytes : int
        The maximum size of a segment in bytes. A batch that is larger is alone in its segment.
        Only closed segments are compacted or deleted.
    compression : str
        The codec of the batches: "none", "gzip", "snappy", "lz4" or "zstd".
    """

    compact: bool = True
    retention_ms: int | None = None
    min_compaction_lag_ms: int = 0
    delete_retention_ms: int = 86_400_000
    segment_bytes: int = 64 * _MIB
    compression: str = "none"

    def __post_init__(self) -> None:
        for name in ("min_compaction_lag_ms", "delete_retention_ms"):
            if getattr(self, name) < 0:
                raise SpecError(f"{name} must be 0 or more, not {getattr(self, name)}")
        if self.segment_bytes < 1:
            raise SpecError(f"segment_bytes must be 1 or more, not {self.segment_bytes}")
        check_choice("compression", self.compression, CODECS)

    @classmethod
    def of_topic(cls, config: Mapping[str, str]) -> Self:
        """Return the settings of a log in files for the settings of a topic.

        Parameters
        ----------
        config : mapping of str to str
            The topic's settings, by Kafka's names.

        Raises
        ------
        SpecError
            A log in files does not support a setting, or a value is not valid.
        """
        policy = "compact"
        retention_ms: int | None = None
        numbers: dict[str, int] = {}
        compression = "none"
        for name, value in config.items():
            if name == "cleanup.policy":
                policy = value
            elif name == "retention.ms":
                number = _number(name, value)
                retention_ms = None if number == -1 else number
            elif name in _NUMBERS:
                numbers[_NUMBERS[name]] = _number(name, value)
            elif name == "compression.type":
                compression = {"producer": "none", "uncompressed": "none"}.get(value, value)
            elif (name, value) != ("message.timestamp.type", "CreateTime"):
                raise SpecError(
                    f"a changelog in files does not support the setting {name}={value}. The "
                    f"settings must be among cleanup.policy, retention.ms, {', '.join(_NUMBERS)}, "
                    "compression.type, and message.timestamp.type=CreateTime"
                )
        policies = {part.strip() for part in policy.split(",")}
        if not policies <= {"compact", "delete"}:
            raise SpecError(
                f"cleanup.policy must be 'compact', 'delete' or 'compact,delete', not {policy!r}"
            )
        return cls(
            compact="compact" in policies,
            retention_ms=retention_ms if "delete" in policies else None,
            compression=compression,
            **numbers,
        )


_NUMBERS = {
    "min.compaction.lag.ms": "min_compaction_lag_ms",
    "delete.retention.ms": "delete_retention_ms",
    "segment.bytes": "segment_bytes",
}


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise SpecError(f"{name} must be an integer, not {value}") from None

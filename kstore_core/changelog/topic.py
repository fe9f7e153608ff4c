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
"""The time, ms, for which a log keeps history longer than its store: clocks may differ."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_MAX_MS = 2**63 - 1
_MIB = 1024 * 1024


def changelog_topic(application_id: str, store: str) -> str:
    """``<application id>-<store>-changelog``.

    Raises
    ------
    SpecError
        Kafka does not allow the name, or a part of it is empty.
    """
    if not application_id or not store:
        raise SpecError(
            f"a changelog topic needs an application and a store, not {application_id!r} and "
            f"{store!r}"
        )
    return check_topic(f"{application_id}-{store}-changelog")


def check_topic(name: str) -> str:
    """Return the name if Kafka allows it for a topic: 1 to 249 of ``A-Za-z0-9._-``, not dots only.

    Raises
    ------
    SpecError
        Kafka does not allow it.
    """
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise SpecError(
            f"{name!r} cannot be the name of a topic: 1 to 249 of A-Za-z0-9._- are needed"
        )
    return name


def topic_config(
    spec: StoreSpec,
    overrides: Mapping[str, str] | None = None,
    *,
    additional_retention_ms: int = ADDITIONAL_RETENTION_MS,
) -> dict[str, str]:
    """Return the settings of a store's changelog topic, as Kafka Streams creates it.

    Parameters
    ----------
    spec : StoreSpec
    overrides : mapping of str to str, optional
        Settings that replace or add to these.
    additional_retention_ms : int
        For window and session stores: Kafka's ``windowstore.changelog.additional.retention.ms``.

    Returns
    -------
    dict of str to str
        By Kafka's names. Key-value stores are compacted. Versioned stores are compacted, but
        records younger than the history retention and a day are not. The logs of window and session
        stores are compacted, and records older than their retention and the additional one are
        deleted. A window store that retains duplicates is not compacted: it has many rows per key.
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
    """The settings of a log in files. The defaults are Kafka's, except for smaller segments.

    Attributes
    ----------
    compact : bool
        If True, compaction keeps only the last of the records with equal keys.
    retention_ms : int or None
        The greatest age of a closed segment, by its newest record; None: no limit.
    min_compaction_lag_ms : int
        The least age of a record before compaction may remove it.
    delete_retention_ms : int
        The time for which a tombstone stays after the first compaction that reads it, so that a
        reader from the start sees it.
    segment_bytes : int
        The largest size of a segment. Only closed segments are compacted or deleted.
    compression : str
        "none", "gzip", "snappy", "lz4" or "zstd".
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
                raise SpecError(f"{name} is {getattr(self, name)}; 0 or more is needed")
        if self.segment_bytes < 1:
            raise SpecError(f"segment_bytes is {self.segment_bytes}; 1 or more is needed")
        check_choice("compression", self.compression, CODECS)

    @classmethod
    def of_topic(cls, config: Mapping[str, str]) -> Self:
        """Return the settings of a topic, given by Kafka's names.

        Raises
        ------
        SpecError
            A setting that a log in files does not have, or a bad value.
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
                    f"a changelog in files has no setting {name}={value}; there are: "
                    f"cleanup.policy, retention.ms, {', '.join(_NUMBERS)}, compression.type, "
                    "message.timestamp.type=CreateTime"
                )
        policies = {part.strip() for part in policy.split(",")}
        if not policies <= {"compact", "delete"}:
            raise SpecError(f"cleanup.policy={policy}: compact, delete or both are needed")
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
        raise SpecError(f"{name}={value}: an integer is needed") from None

"""The options of the data source ``kstore-kafka``, with the names of Spark's Kafka source."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar

from kstore_core.errors import SpecError
from kstore_core.spark.kafka.offsets import (
    EARLIEST,
    LATEST,
    Place,
    Positions,
    parse_places,
    parse_positions,
)

if TYPE_CHECKING:
    from kstore_core.changelog.kafka.client import Cluster

__all__ = ["OPTIONS", "GivenOptions", "KafkaOptions", "Topics", "wait_ms"]

_Value = TypeVar("_Value")

OPTIONS = {
    "kafka.bootstrap.servers": "",
    "subscribe": "",
    "subscribePattern": "",
    "assign": "",
    "startingOffsets": "earliest (batch), latest (stream)",
    "endingOffsets": "latest",
    "includeHeaders": "false",
    "failOnDataLoss": "true",
    "minPartitions": "one for each Kafka partition",
    "maxOffsetsPerTrigger": "no limit",
    "kafkaConsumer.pollTimeoutMs": "120000",
    "kafka.isolation.level": "read_uncommitted",
}
"""The options and their defaults. The settings that librdkafka receives are not included."""

_SETTING = "kafka."
_OURS = frozenset(
    {
        *("enable.auto.commit", "enable.auto.offset.store", "enable.partition.eof"),
        *("auto.offset.reset", "acks", "request.required.acks", "enable.idempotence"),
        *("transactional.id", "message.timeout.ms", "delivery.timeout.ms", "error_cb", "logger"),
        *("on_delivery", "delivery.report.only.error"),
    }
)
_LEVELS = ("read_uncommitted", "read_committed")
_LONGEST_WAIT_MS = 600_000


@dataclass(frozen=True, slots=True)
class Topics:
    """The partitions to read, which are given in one of three ways.

    Attributes
    ----------
    names : tuple of str
        The names of topics. All partitions of these topics are read.
    pattern : str, optional
        A regular expression for the names of topics. All partitions of these topics are read.
    places : tuple
        The partitions to read.
    """

    names: tuple[str, ...] = ()
    pattern: str | None = None
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """The parsed options of a reader. Each worker receives a pickled copy.

    ``settings`` contains the settings that librdkafka receives.
    """

    servers: str
    topics: Topics
    starting: Positions | None = None
    ending: Positions | None = None
    headers: bool = False
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_offsets: int | None = None
    timeout_s: float = 120.0
    isolation: str = "read_uncommitted"
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)  # may contain a password

    @classmethod
    def of(cls, options: Mapping[str, str]) -> KafkaOptions:
        """Parse options. Their names may be in upper or lower case.

        Raises SpecError for an unknown option, a missing option, or a wrong value.
        """
        given = GivenOptions(options, OPTIONS)
        return cls(
            servers=given.needed("kafka.bootstrap.servers"),
            topics=_topics(given),
            starting=given.read("startingOffsets", parse_positions, None),
            ending=given.read("endingOffsets", parse_positions, None),
            headers=given.read("includeHeaders", _flag, False),
            fail_on_data_loss=given.read("failOnDataLoss", _flag, True),
            min_partitions=given.read("minPartitions", _count, None),
            max_offsets=given.read("maxOffsetsPerTrigger", _count, None),
            timeout_s=given.read("kafkaConsumer.pollTimeoutMs", wait_ms, 120_000) / 1000,
            isolation=given.read("kafka.isolation.level", _level, "read_uncommitted"),
            settings=given.settings(),
        )

    def check_batch(self) -> None:
        """Raise SpecError if an option, or the value of an option, is not allowed for a batch."""
        if self.max_offsets is not None:
            raise SpecError(
                "maxOffsetsPerTrigger can be used only for a stream; to limit a batch, set "
                "endingOffsets"
            )
        if self.starting is not None and self.starting.names(LATEST):
            raise SpecError(
                "startingOffsets must not contain the latest offset, because the batch would be "
                "empty. Pass 'earliest', or JSON in which the offset of each partition is 0 or "
                f"more, or {EARLIEST} for earliest"
            )
        if self.ending is not None and self.ending.names(EARLIEST):
            raise SpecError(
                "endingOffsets must not contain the earliest offset, because the batch would be "
                "empty. Pass 'latest', or JSON in which the offset of each partition is 0 or more, "
                f"or {LATEST} for latest"
            )

    def check_stream(self) -> None:
        """Raise SpecError if an option is not allowed for a stream."""
        if self.ending is not None:
            raise SpecError(
                "endingOffsets can be used only for a batch. To end a stream, set its trigger: "
                ".trigger(availableNow=True) reads the records that exist now, and stops"
            )

    def cluster(self) -> Cluster:
        """Return a Cluster for the brokers, but do not connect to the brokers yet.

        confluent-kafka must be installed.
        """
        from kstore_core.changelog.kafka.client import Cluster

        # By default librdkafka waits half a minute before it reports that a topic is missing.
        settings = {"topic.metadata.propagation.max.ms": "2000", **self.settings}
        return Cluster(self.servers, settings, self.timeout_s)


class GivenOptions:
    """The options that the user gave, by their names in lower case.

    The constructor raises SpecError for an option that is not in ``known``.
    """

    def __init__(self, options: Mapping[str, str], known: Iterable[str]) -> None:
        self._options = {name.lower(): (name, value) for name, value in options.items()}
        self._known = {name.lower(): name for name in known}
        for low, (name, _) in self._options.items():
            if low in self._known or low.startswith(_SETTING):
                continue
            if low in ("path", "paths"):
                raise SpecError(
                    'format("kstore-kafka") has no path, because it reads and writes topics; leave '
                    "out the path, and set the option subscribe, subscribePattern or assign for a "
                    "read, or topic for a write"
                )
            near = get_close_matches(low, self._known, 1)
            hint = f"; did you mean {self._known[near[0]]}?" if near else "."
            raise SpecError(
                f'format("kstore-kafka") has no option {name!r}{hint} Its options are '
                f"{', '.join(known)}, and kafka.* for settings of librdkafka"
            )

    def read(self, name: str, parse: Callable[[str, str], _Value], default: _Value) -> _Value:
        if name.lower() not in self._options:
            return default
        return parse(name, self._options[name.lower()][1])

    def has(self, name: str) -> bool:
        return name.lower() in self._options

    def needed(self, name: str) -> str:
        value = self.read(name, lambda _, text: text.strip(), "")
        if not value:
            raise SpecError(f'the option {name} is missing; add .option("{name}", "host:port")')
        return value

    def settings(self) -> dict[str, str]:
        found = {
            low.removeprefix(_SETTING): value
            for low, (_, value) in self._options.items()
            if low.startswith(_SETTING) and low not in self._known
        }
        taken = sorted(_OURS & found.keys())
        if taken:
            raise SpecError(
                f"{', '.join(_SETTING + name for name in taken)} cannot be set, because the data "
                "source itself sets these options; leave them out. To choose the first offset, "
                "pass startingOffsets"
            )
        return found


def _topics(given: GivenOptions) -> Topics:
    ways = [name for name in ("subscribe", "subscribePattern", "assign") if given.has(name)]
    if len(ways) != 1:
        raise SpecError(
            "exactly one of the options subscribe, subscribePattern and assign must name the "
            f"topics; options given: {', '.join(ways) if ways else 'none'}"
        )
    return given.read(
        ways[0],
        {"subscribe": _subscribed, "subscribePattern": _pattern}.get(ways[0], _assigned),
        Topics(),
    )


def _subscribed(option: str, text: str) -> Topics:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise SpecError(f"{option}={text!r} must be the names of topics, separated by commas")
    return Topics(names=names)


def _pattern(option: str, text: str) -> Topics:
    try:
        re.compile(text)
    except re.error as error:
        raise SpecError(f"{option}={text!r} is not a Python regular expression: {error}") from error
    return Topics(pattern=text)


def _assigned(option: str, text: str) -> Topics:
    return Topics(places=parse_places(option, text))


def _flag(option: str, text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise SpecError(f"{option}={text!r} must be true or false")
    return text.strip().lower() == "true"


def _count(option: str, text: str) -> int:
    if not text.strip().isdecimal() or len(text) > 18 or not int(text):
        raise SpecError(f"{option}={text!r:.200} must be a number above 0 with at most 18 digits")
    return int(text)


def wait_ms(option: str, text: str) -> int:
    wait = _count(option, text)
    if wait > _LONGEST_WAIT_MS:
        raise SpecError(f"{option}={text!r} must be at most {_LONGEST_WAIT_MS} ms")
    return wait


def _level(option: str, text: str) -> str:
    if text.strip().lower() not in _LEVELS:
        raise SpecError(f"{option}={text!r} must be {' or '.join(_LEVELS)}")
    return text.strip().lower()

"""The confluent-kafka clients of a Kafka cluster, and requests to the cluster with a time limit."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from kstore_core.changelog.kafka.errors import REFUSED, UNREACHABLE, meaning
from kstore_core.errors import EngineUnavailableError, KStoreError, SpecError
from kstore_core.hints import install

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient

__all__ = ["Cluster"]

_Client = TypeVar("_Client")
_Answer = TypeVar("_Answer")

_log = logging.getLogger("kstore_core.kafka")
# The exceptions that kstore raises have all details, so librdkafka's own messages are not shown.
_log.addHandler(logging.NullHandler())

_PRODUCER = {"acks": "all", "enable.idempotence": True}
_CONSUMER = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}
_OURS = frozenset({*_PRODUCER, *_CONSUMER, "isolation.level", "bootstrap.servers"})
_OURS |= {"request.required.acks", "transactional.id", "message.timeout.ms", "delivery.timeout.ms"}
_OURS |= {"error_cb", "logger", "on_delivery", "delivery.report.only.error"}
"""The settings that a user cannot change, because the changelog's guarantees depend on them."""

_REBOOTSTRAPS = 0x020B0000
"""The first version of librdkafka that has the setting ``metadata.recovery.strategy``."""

_PASSING = UNREACHABLE | {"_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_OR_PART"}
_PASSING |= {"NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE"}
_PASSING |= {"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"}
"""The transient errors: a broker cannot be reached, a topic was just created, or the coordinator
of a group has just moved."""


class Cluster:
    """The brokers of a changelog, and the clients that are connected to them.

    Parameters
    ----------
    servers : str
        The bootstrap brokers as ``host:port``, separated by commas.
    settings : mapping of str to object, optional
        More settings of the clients, by librdkafka's names.
    timeout_s : float
        The time in seconds after which an operation fails if the brokers do not answer.

    Attributes
    ----------
    library : module
        The module confluent_kafka.
    trouble : KafkaError or None
        The last error that a client reported. If a later operation times out, this error explains
        why.

    Raises
    ------
    EngineUnavailableError
        confluent-kafka is not installed.
    SpecError
        `settings` has a setting that only kstore may set, or `timeout_s` is not positive.
    """

    def __init__(
        self, servers: str, settings: Mapping[str, Any] | None = None, timeout_s: float = 30.0
    ) -> None:
        self.library = _load()
        self.servers = servers
        self.timeout_s = timeout_s
        self.trouble: KafkaError | None = None
        taken = sorted(_OURS & (settings or {}).keys())
        if taken:
            raise SpecError(
                f"the settings contain {', '.join(taken)}, but a changelog itself sets these "
                "values; remove them from the settings"
            )
        if timeout_s <= 0:
            raise SpecError(f"timeout_s must be more than 0, not {timeout_s}")
        socket_ms = max(2000, min(60_000, int(timeout_s * 1000)))
        self._settings = {
            "client.id": "kstore",
            "socket.timeout.ms": socket_ms,
            "socket.connection.setup.timeout.ms": min(30_000, socket_ms),
            "reconnect.backoff.max.ms": 1000,
            **(settings or {}),
            "bootstrap.servers": servers,
            "error_cb": self._record_trouble,
            "logger": _log,
        }

    def __repr__(self) -> str:
        return f"<Cluster {self.servers}>"

    def consumer(self, *, isolation: str = "read_committed") -> Consumer:
        """Return a consumer that joins no group. The caller assigns partitions and offsets."""
        defaults = {
            "group.id": "kstore",  # The library requires a group, but the consumer never joins it.
            "check.crcs": True,
            "fetch.wait.max.ms": 100,
            # With the default, the consumer waits a second when its queue is full, and reads only a
            # third as fast.
            "fetch.queue.backoff.ms": 1,
            "queued.max.messages.kbytes": 32 * 1024,
        }
        kind: type[Consumer] = self.library.Consumer
        return self._made(
            kind, {**defaults, **self._settings, **_CONSUMER, "isolation.level": isolation}
        )

    def member(self, group: str, *, isolation: str, reset: str, timeout_s: float) -> Consumer:
        """Return a consumer that joins a group. The group assigns partitions to the consumer.

        ``reset`` determines where the consumer starts in a partition without a committed offset.
        After ``timeout_s`` seconds, the group assigns the partitions of a silent member to other
        members.
        """
        kind: type[Consumer] = self.library.Consumer
        own = {
            **_CONSUMER,
            "group.id": group,
            "isolation.level": isolation,
            "auto.offset.reset": reset,
            "enable.partition.eof": False,
            "session.timeout.ms": int(timeout_s * 1000),
            # If all topics have the same number of partitions, this strategy assigns the
            # partitions with the same number to the same member.
            "partition.assignment.strategy": "range",
        }
        return self._made(kind, {"check.crcs": True, **self._settings, **own})

    def group(self, name: str) -> Consumer:
        """Return a consumer that reads the committed offsets of a group, but does not join it."""
        kind: type[Consumer] = self.library.Consumer
        return self._made(kind, {**self._settings, **_CONSUMER, "group.id": name})

    def producer(self, transactional_id: str | None = None, **more: Any) -> Producer:
        """Return an idempotent producer. All in-sync replicas must acknowledge each record.

        With ``transactional_id``, the producer is transactional. The caller must initialise it.
        """
        defaults = {"message.max.bytes": 1_000_000_000}  # The topic's own limit applies instead.
        kind: type[Producer] = self.library.Producer
        own = {**_PRODUCER, "message.timeout.ms": int(self.timeout_s * 1000), **more}
        if transactional_id is not None:
            own |= {"transactional.id": transactional_id}
            own["transaction.timeout.ms"] = max(1000, own["message.timeout.ms"])
            if self.library.libversion()[1] >= _REBOOTSTRAPS:
                # Without this setting, after a restart of all brokers, librdkafka would forget the
                # coordinator of the transaction, and not find it again within the time limit.
                own["metadata.recovery.strategy"] = "none"
        return self._made(kind, {**defaults, **self._settings, **own})

    def admin(self) -> AdminClient:
        """Return a client that can create and describe topics."""
        from confluent_kafka.admin import AdminClient

        return self._made(AdminClient, self._settings)

    def close(self, client: Any) -> None:
        """Close a client, and drop its unsent records.

        In a forked child, the method does nothing for clients of the parent.
        """
        if _open.pop(id(client), None) is None:
            return
        if isinstance(client, self.library.Producer):
            client.purge()
        if hasattr(client, "close"):
            # A producer that another producer has fenced cannot abort its transaction.
            with contextlib.suppress(self.library.KafkaException):
                client.close()

    def ask(self, client: Any, question: Callable[[float], _Answer], doing: str) -> _Answer:
        """Repeat a request until the brokers answer or `timeout_s` has passed.

        Parameters
        ----------
        client : Consumer, Producer or AdminClient
            The client that sends the request.
        question : callable
            A function that sends the request once. Its argument is the time limit in seconds.
        doing : str
            The beginning of the error message.

        Raises
        ------
        KStoreError
            The request failed; see `error`.
        """
        deadline = time.monotonic() + self.timeout_s
        self.trouble = None
        while True:
            try:
                return question(max(0.01, min(1.0, deadline - time.monotonic())))
            except self.library.KafkaException as caught:
                client.poll(0)  # This passes the client's errors to error_cb.
                error = caught.args[0]
                if self.is_refused or not self.passes(error) or time.monotonic() >= deadline:
                    raise self.error(error, doing) from caught
                time.sleep(0.02)

    def passes(self, error: KafkaError) -> bool:
        """Return True if an error is transient, so that a retry may succeed."""
        return error.name() in _PASSING or error.retriable()

    @property
    def is_refused(self) -> bool:
        """Return True if the brokers reject this client, so that a retry fails too."""
        return self.trouble is not None and self.trouble.name() in REFUSED

    def error(self, error: KafkaError | None, doing: str) -> KStoreError:
        """Return the kstore error for an error of Kafka.

        Parameters
        ----------
        error : KafkaError or None
            The error that the library reported; None if there was no answer in time.
        doing : str
            The beginning of the error message.
        """
        if self.trouble is not None and (
            self.is_refused or error is None or error.name() in _PASSING
        ):
            error = self.trouble
        name = "_TIMED_OUT" if error is None else error.name()
        detail = "" if error is None else f" ({error.str()})"
        return meaning(name, f"{doing}, at {self.servers}: {name}{detail}", self.timeout_s)

    @contextlib.contextmanager
    def explained(self, doing: str) -> Iterator[None]:
        """Translate Kafka's errors in the ``with`` block into kstore errors; see `error`."""
        try:
            yield
        except self.library.KafkaException as caught:
            raise self.error(caught.args[0], doing) from caught

    def _record_trouble(self, error: KafkaError) -> None:
        if not self.is_refused:
            self.trouble = error

    def _made(self, kind: Callable[[dict[str, Any]], _Client], settings: dict[str, Any]) -> _Client:
        with self.explained("the Kafka client cannot be created"):
            client = kind(settings)
        _open[id(client)] = client
        return client


_open: dict[int, Any] = {}
"""The open clients of this process, by Python ``id``. Each client has threads."""


def _leak_inherited() -> None:
    """Prevent a forked child from freeing the parent's clients.

    Freeing a client would wait for threads that exist only in the parent.
    """
    for client in _open.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
    _open.clear()


os.register_at_fork(after_in_child=_leak_inherited)


def _load() -> ModuleType:
    try:
        import confluent_kafka
    except ImportError as error:
        raise EngineUnavailableError(
            "a changelog in Kafka needs confluent-kafka, which is not installed: "
            + install("kafka")
        ) from error
    return confluent_kafka

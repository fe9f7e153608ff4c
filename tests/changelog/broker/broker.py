"""A Kafka broker of one node, for as long as a file of tests takes."""

from __future__ import annotations

import itertools
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.changelog.broker.records import wait_until
from tests.interop.harness import resolve_classpath
from tests.support.class_archive import QUICK

POM = Path(__file__).with_name("pom.xml")
JVM = ("-Xmx256m", *QUICK)
START_TIMEOUT_S = 60
#: It compacts at once, and so deletes at once what has expired of a topic that does both.
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{guarded},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{guarded}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.name.sasl.sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config={jaas}
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.cleaner.backoff.ms=100
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
"""
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="broker" password="broker" user_alice="secret";'
)


def resolve(cache: Path) -> str:
    """The class path of a broker and its tools, downloaded into `cache` once.

    Raises
    ------
    HarnessUnavailableError
        java or mvn is missing, or Maven cannot reach a repository.
    """
    return resolve_classpath(POM, cache, "broker")


class Broker:
    """A broker with storage of its own.

    Parameters
    ----------
    classpath : str
        What `resolve` returned.
    directory : Path
        Empty; where it keeps all that it writes.

    Attributes
    ----------
    servers, guarded : str
        Where clients reach it; and where they have to say that they are alice, and her secret.
    data : Path
        Holds the directories of its partitions.
    admin : AdminClient
    """

    def __init__(self, classpath: str, directory: Path) -> None:
        self._classpath = classpath
        port, guarded, controller = free_ports(3)
        self.servers = f"127.0.0.1:{port}"
        self.guarded = f"127.0.0.1:{guarded}"
        self.data = directory / "data"
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        self._numbers = itertools.count()
        properties = directory / "server.properties"
        properties.write_text(
            PROPERTIES.format(
                port=port, guarded=guarded, controller=controller, data=self.data, jaas=JAAS
            ),
            encoding="ascii",
        )
        self.run("kafka.tools.StorageTool", "format", f"--config={properties}", "--cluster-id=test")
        self._output = (directory / "output").open("w+")
        self._properties = properties
        self._start()

    def restart(self) -> None:
        """Kill the JVM, and start it again with its data."""
        self._jvm.kill()
        self._jvm.wait()
        self._start()

    def _start(self) -> None:
        self._jvm = subprocess.Popen(
            ["java", *JVM, "-cp", self._classpath, "kafka.Kafka", str(self._properties)],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    @property
    def number(self) -> int:
        """Another one each time."""
        return next(self._numbers)

    def create(self, partitions: int = 1, *, name: str | None = None, **settings: object) -> str:
        """A new topic; of its settings the dots are underscores. Returns its name.

        The broker says that it has made a topic shortly before it shows the topic to clients.
        """
        topic = name or f"topic-{self.number}"
        config = {key.replace("_", "."): str(value) for key, value in settings.items()}
        new = NewTopic(topic, partitions, 1, config={"cleanup.policy": "compact"} | config)
        self.admin.create_topics([new])[topic].result(20)
        wait_until(lambda: topic in self.admin.list_topics(timeout=20).topics)
        return topic

    def settings_of(self, topic: str) -> dict[str, Any]:
        """By their names, those that the topic was not given, too."""
        asked = ConfigResource(ResourceType.TOPIC, topic)
        found = self.admin.describe_configs([asked])[asked].result(20)
        return {name: entry.value for name, entry in found.items()}

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Meanwhile it takes connections and answers nothing."""
        self._jvm.send_signal(signal.SIGSTOP)
        try:
            for thread in Path(f"/proc/{self._jvm.pid}/task").iterdir():
                while "\nState:\tT" not in (thread / "status").read_text():
                    time.sleep(0.01)
            yield
        finally:
            self._jvm.send_signal(signal.SIGCONT)

    def run(self, tool: str, *arguments: str) -> str:
        """What one of Kafka's command line tools prints."""
        command = ["java", *JVM, "-cp", self._classpath, tool, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def close(self) -> None:
        """End the JVM; its files are not needed whole."""
        self._jvm.kill()
        self._jvm.wait()
        self._output.close()

    def _wait(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._jvm.poll() is None and time.monotonic() < deadline:
            try:
                if self.admin.list_topics(timeout=1).brokers:
                    return
            except KafkaException:
                continue
        self._output.seek(0)
        raise RuntimeError(f"the broker does not run: {self._output.read()}")


def free_ports(count: int) -> list[int]:
    """Find ports that nobody listens to.

    They are below those that Linux gives to connections and to servers that name no port: another
    test could be given one of those before the broker opens it.
    """
    ports: set[int] = set()
    while len(ports) < count:
        port = 10_000 + secrets.randbelow(20_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.add(port)
    return list(ports)

"""``kstore restore --from kafka://…``, against librdkafka's mock of a cluster."""

import pytest
from confluent_kafka import Producer

from kstore_core import open_state, stores
from kstore_core.changelog import KafkaChangelogs
from kstore_core.cli.parameters.brokers import LOG, client_settings
from kstore_core.errors import SpecError

TOPICS = ["app-s-changelog", "app-two-changelog", "other-two-changelog", "app-b-a-changelog"]
SPEC = stores.timestamped_key_value("s")
NEW = ("--shape", "key-value", "--format", "timestamped", "--engine", "lmdb")


@pytest.fixture(scope="module")
def servers():
    mock = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(mock.list_topics(timeout=10).brokers.values()))
    for topic in TOPICS:  # the mock has every topic that a producer asks for, in four partitions
        mock.list_topics(topic, timeout=10)
    yield f"{broker.host}:{broker.port}"
    mock.close()


@pytest.fixture(scope="module")
def wanted(servers, tmp_path_factory):
    """What a store holds that logs to partition 3."""
    root = tmp_path_factory.mktemp("written")
    logs = KafkaChangelogs(servers, application_id="app", check_settings=False)
    with open_state(root / "0_3", engine="memory", changelog=logs) as state:
        store = state.open(SPEC)
        for number in range(1, 31):
            store.put(b"k%d" % (number % 7), b"%d" % number, timestamp=number)
        state.commit()
        return list(store.all())


def contents(root):
    with open_state(root, engine="lmdb", read_only=True) as state:
        return list(state.open(SPEC).all())


@pytest.mark.parametrize(
    ("directory", "topic"),
    [("app/0_3", ""), ("app/0_3", "/"), ("elsewhere/0_3", ""), ("x/0_3", "/app-s-changelog")],
)
def test_the_topic_and_the_partition(run, tmp_path, servers, wanted, directory, topic):
    root = tmp_path / directory
    ran = run("restore", root, "s", "--from", f"kafka://{servers}{topic}", *NEW)
    assert (ran.code, ran.err) == (0, "")
    said, _ = ran.out.splitlines()
    assert said == "s contains app-s-changelog-3 up to offset 29: restored 30 records"
    assert contents(root) == wanted
    again = run("restore", root, "s", "--from", f"kafka://{servers}{topic}", "--json").document
    assert (again["topic"], again["offset"], again["records"]) == ("app-s-changelog", 29, 0)


def test_the_topic_of_another_store(run, tmp_path, servers, wanted):
    asked = ("restore", tmp_path / "0_3", "t", "--from", f"kafka://{servers}/app-s-changelog", *NEW)
    ran = run(*asked)
    assert ran.code == 2
    assert "ends in -t-changelog. Name the changelog of the store, or add" in ran.err
    assert not (tmp_path / "0_3").exists()
    assert run(*asked, "--any-topic").code == 0


@pytest.mark.parametrize(
    ("directory", "store", "topic", "why"),
    [
        ("app/0_3", "none", "", "no topic app-none-changelog at "),
        ("x/0_3", "two", "", "but app-two-changelog, other-two-changelog; name the topic: --from"),
        ("x/0_3", "a", "", "but app-b-a-changelog, which may also belong to the store 'b-a'"),
        ("app/0_3", "s", "/no-s-changelog", "there is no topic no-s-changelog at "),
        ("app/state", "s", "", "which of the 4 partitions of app-s-changelog"),
        ("app/0_7", "s", "", "no partition 7 of app-s-changelog"),
    ],
)
def test_a_log_that_is_not_there(run, tmp_path, servers, directory, store, topic, why):
    ran = run("restore", tmp_path / directory, store, "--from", f"kafka://{servers}{topic}", *NEW)
    assert ran.code == 1
    assert why in ran.err.replace("\n", " ")
    assert not (tmp_path / directory).exists()


@pytest.mark.parametrize("url", ["kafka://", "kafka:localhost", "kafka://a:1/b/c", "kafka://a b"])
def test_urls_that_are_none(run, tmp_path, url):
    ran = run("restore", tmp_path / "0_0", "s", "--from", url, *NEW)
    assert ran.code == 2
    assert "is not kafka://host:port" in ran.err


@pytest.mark.parametrize(
    "servers", ["x:99999", "x:65536", "x:0", "a:9092,[::1]:100000", "x:655350"]
)
def test_ports_that_are_none(run, tmp_path, servers):
    ran = run(
        "restore", tmp_path / "0_0", "s", "--from", f"kafka://{servers}/app-s-changelog", *NEW
    )
    assert ran.code == 2
    assert "is not a port; a port must be 1 to 65535" in " ".join(ran.err.split())
    assert LOG.convert("kafka://a,[::1]:65535/t", None, None).servers == "a,[::1]:65535"


def test_settings_of_the_client(run, tmp_path, servers, wanted):
    config = tmp_path / "client.properties"
    config.write_text("# how to get in\n\nsecurity.protocol = PLAINTEXT\n! more\nclient.id=me\n")
    assert client_settings(config) == {"security.protocol": "PLAINTEXT", "client.id": "me"}
    source = ("--from", f"kafka://{servers}", "--kafka-config", config)
    assert run("restore", tmp_path / "app" / "0_3", "s", *source, *NEW).code == 0
    assert contents(tmp_path / "app" / "0_3") == wanted
    ran = run("restore", tmp_path, "s", "--from", tmp_path, "--kafka-config", config, *NEW)
    assert (ran.code, "is for a log in Kafka" in ran.err) == (2, True)


def test_settings_that_are_wrong(tmp_path):
    config = tmp_path / "client.properties"
    config.write_text("a=b\nnonsense\n")
    with pytest.raises(
        SpecError, match=r"client.properties, line 2 is not a setting; a line must be name=value"
    ):
        client_settings(config)

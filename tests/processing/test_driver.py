"""The test driver, and the context that it gives to processors."""

from datetime import UTC, datetime

import pytest

from kstore_core import Headers, serdes, stores
from kstore_core.errors import SerdeError, SpecError, StateError, StoreClosedError, TopologyError
from kstore_core.partition_time import with_partition_time
from kstore_core.processing import Processor, Record, TestDriver, Topology

TEXTS = {"key": serdes.UTF8, "value": serdes.UTF8}
ORDERS = stores.timestamped_key_value_with_headers("orders", **TEXTS)
ALL = [
    stores.key_value("key_value"),
    stores.timestamped_key_value("timestamped_key_value"),
    stores.timestamped_key_value_with_headers("timestamped_key_value_with_headers"),
    stores.versioned_key_value("versioned_key_value", 1000),
    stores.versioned_key_value_with_headers("versioned_key_value_with_headers", 1000),
    stores.window("window", 1000, 10),
    stores.timestamped_window("timestamped_window", 1000, 10),
    stores.timestamped_window_with_headers("timestamped_window_with_headers", 1000, 10),
    stores.session("session", 1000),
    stores.session_with_headers("session_with_headers", 1000),
]


def driver_of(processor, *specs, **options):
    topology = Topology().add_source("in", "in", **TEXTS)
    topology.add_processor("p", processor, ["in"], stores=specs).add_sink(
        "k", "out", ["p"], **TEXTS
    )
    return TestDriver(topology, **{"start_ms": 1000} | options)


def values(driver):
    return [record.value for record in driver.read_output("out")]


def store(context, record):
    context.store("orders").put(record.key, record.value)


def test_a_store_takes_time_headers_and_offset_of_the_record():
    with driver_of(store, ORDERS) as driver:
        driver.pipe_input("in", "o", "a", timestamp=5, headers=[("trace", b"1")])
        driver.pipe_input("in", "o", None, timestamp=6, headers=[("trace", b"2")])
        driver.pipe_input("in", "n", "b")
        orders = driver.get_timestamped_key_value_store_with_headers("orders")
        assert orders.get("o") is None
        assert (orders.get("n").value, orders.get("n").timestamp) == ("b", 1000)
        assert orders.position == {"in": {0: 2}}
        log = driver.read_changelog("orders")
        assert [(record.key, record.value, record.timestamp) for record in log] == [
            (b"o", b"a", 5), (b"o", None, 6), (b"n", b"b", 1000)
        ]  # fmt: skip
        assert [record.headers.value("trace") for record in log] == [b"1", b"2", None]
        assert [(record.topic, record.offset) for record in log][1] == (
            "test-driver-orders-changelog", 1
        )  # fmt: skip


def test_metadata_say_who_owns_a_store():
    with driver_of(store, ORDERS) as driver:
        driver.pipe_input("in", "o", "a")
        found = driver.metadata("orders")
        assert (found.spec, found.subtopology, found.processors) == (ORDERS, 0, ("p",))
        assert (found.topics, found.changelog) == (("in",), "test-driver-orders-changelog")
        assert found.position == {"in": {0: 0}}
        with pytest.raises(TopologyError, match=r"no store 'other' \(its stores: 'orders'\)"):
            driver.metadata("other")


def test_each_shape_has_an_accessor():
    names = [spec.name for spec in ALL]
    accessor = {name: f"get_{name.removesuffix('_with_headers')}_store" for name in names}
    accessor |= {name: f"{accessor[name]}_with_headers" for name in names if "headers" in name}
    with driver_of(store, *ALL) as driver:
        for name in names:
            for other in names:
                get = getattr(driver, accessor[other])
                if name == other:
                    assert get(name) is driver.store(name)
                    continue
                with pytest.raises(TopologyError) as error:
                    get(name)
                assert f"Call {accessor[name]}({name!r})" in str(error.value)


def test_outputs_are_read_once_and_keep_their_place():
    with driver_of(lambda context, record: context.forward(record)) as driver:
        assert driver.read_output("out") == []
        driver.pipe_input("in", "k", "v", timestamp=datetime(1970, 1, 1, tzinfo=UTC))
        driver.pipe_input("in", None, None, timestamp=7, headers=[("h", None)])
        found = driver.read_output("out")
        assert found == [Record("k", "v", 0), Record(None, None, 7, [("h", None)])]
        assert [(one.topic, one.partition, one.offset) for one in found][1] == ("out", 0, 1)
        assert driver.read_output("out") == []
        with pytest.raises(TopologyError, match="no sink writes to the topic 'in'"):
            driver.read_output("in")
        with pytest.raises(TopologyError, match="no source reads the topic 'out'"):
            driver.pipe_input("out", "k", "v")
        with pytest.raises(ValueError, match=r"must be from 0 to .* not -1"):
            driver.pipe_input("in", "k", "v", timestamp=-1)


def test_records_of_a_topic_that_a_source_reads_are_processed():
    topology = (
        Topology().add_source("first", "a", **TEXTS).add_sink("to b", "b", ["first"], **TEXTS)
    )
    topology.add_source("second", "b", **TEXTS).add_sink("to c", "c", ["second"], **TEXTS)
    with TestDriver(topology) as driver:
        driver.pipe_input("a", "k", "v", timestamp=3, headers=[("h", b"1")])
        expected = [Record("k", "v", 3, [("h", b"1")])]
        assert driver.read_output("b") == expected
        assert driver.read_output("c") == expected


class Told(Processor):
    """Forwards what the context says."""

    def init(self, context):
        super().init(context)
        self.told = context.system_time
        self.by_stream = context.schedule(10, "stream_time", self.tell)
        context.schedule(100, "wall_clock", self.tell)

    def tell(self, time):
        context = self.context
        times = f"{time}/{context.stream_time}/{context.system_time}/{context.partition_time}"
        self.context.forward(Record("t", times, time))

    def process(self, record):
        if record.value == "cancel":
            self.by_stream.cancel()
            self.by_stream.cancel()
        origin = f"{record.topic}-{record.partition}@{record.offset}"
        times = f"{self.context.stream_time}/{self.context.partition_time}"
        self.context.forward(record.replace(value=f"{origin}/{times}"))


def test_schedules_and_times():
    with driver_of(Told) as driver:
        assert driver.stream_time == -1
        driver.pipe_input("in", "k", "v", timestamp=25)
        assert values(driver) == ["in-0@0/25/25", "25/25/1000/25"]
        driver.pipe_input("in", "k", "v", timestamp=12)
        driver.pipe_input("in", "k", "v", timestamp=29)
        assert values(driver) == ["in-0@1/25/25", "in-0@2/29/29"]
        driver.pipe_input("in", "k", "v", timestamp=30)
        assert values(driver) == ["in-0@3/30/30", "30/30/1000/30"]
        driver.advance_wall_clock(99)
        assert values(driver) == []
        driver.advance_wall_clock(301)
        assert values(driver) == ["1400/30/1400/30"]
        assert driver.wall_clock == 1400
        driver.pipe_input("in", "k", "cancel", timestamp=90)
        assert values(driver) == ["in-0@4/90/90"]
        with pytest.raises(ValueError, match="time cannot go back"):
            driver.advance_wall_clock(-1)


def test_a_schedule_may_begin_at_a_time():
    called = []

    def process(context, record):
        if record.value == "start":
            context.schedule(10, "wall_clock", called.append, start=995)
            context.schedule(10, "stream_time", called.append, start=53)

    with driver_of(process) as driver:
        driver.pipe_input("in", "k", "start", timestamp=20)
        driver.advance_wall_clock(4)
        driver.advance_wall_clock(1)
        driver.pipe_input("in", "k", "v", timestamp=52)
        driver.pipe_input("in", "k", "v", timestamp=53)
        assert called == [1005, 53]


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ((0, "stream_time", print), SpecError, "interval_ms must be an int, 1 or more, not 0"),
        ((1.5, "stream_time", print), SpecError, "interval_ms must be an int"),
        ((1, "event_time", print), SpecError, "time must be 'stream_time' or 'wall_clock'"),
    ],
)
def test_bad_schedules_are_refused(arguments, error, said):
    schedule = driver_of(lambda context, record: context.schedule(*arguments))
    with schedule as driver, pytest.raises(error, match=said):
        driver.pipe_input("in", "k", "v")


def test_partition_time_travels_in_a_header():
    def process(context, record):
        context.forward(record.replace(value=f"{context.stream_time}/{context.partition_time}"))

    sent = with_partition_time(Headers(), 90, 95)
    for honours, expected in ((True, ["90/90", "95/95"]), (False, ["7/7", "8/8"])):
        with driver_of(process, partition_time=honours) as driver:
            driver.pipe_input("in", "k", "v", timestamp=7, headers=sent)
            driver.pipe_input("in", "k", "v", timestamp=8)
            assert values(driver) == expected


def test_a_processor_reaches_only_what_it_is_connected_to():
    def process(context, record):
        if record.value == "store":
            context.store("orders")
        context.forward(record, to=record.value)

    with driver_of(process) as driver:
        driver.pipe_input("in", "a", "k")
        assert values(driver) == ["k"]
        with pytest.raises(TopologyError, match=r"no store 'orders' \(its stores: none\)"):
            driver.pipe_input("in", "a", "store")
        with pytest.raises(TopologyError, match="but its children are 'k'") as error:
            driver.pipe_input("in", "a", "elsewhere")
        assert error.value.__notes__ == [
            "the node 'p' raised this error, while it processed in-0@2"
        ]
        driver.pipe_input("in", "a", "k")
        assert values(driver) == ["k"]


def test_records_are_forwarded_only_while_a_record_is_processed():
    kept = []
    with driver_of(lambda context, record: kept.append(context)) as driver:
        driver.pipe_input("in", "k", "v")
        with pytest.raises(StateError, match=r"outside process\(\)"):
            kept[0].forward(Record("k", "v", 1))
        assert list(kept[0].headers) == []

    class Early(Processor):
        def init(self, context):
            context.forward(Record("k", "v", 1))

    with pytest.raises(StateError, match="cannot get a record while the task is initialised"):
        driver_of(Early)


def test_errors_of_serdes_name_the_record():
    with driver_of(lambda context, record: context.forward(record.replace(value=7))) as driver:
        with pytest.raises(SerdeError, match="utf8 cannot write the value for the topic out"):
            driver.pipe_input("in", "k", "v")
        with pytest.raises(SerdeError, match="utf8 cannot write the key for in"):
            driver.pipe_input("in", 7, "v")


class Closing(Processor):
    def __init__(self, closed):
        self.closed = closed

    def __deepcopy__(self, memo):
        return Closing(self.closed)

    def process(self, record):
        raise NotImplementedError

    def close(self):
        self.closed.append(self)
        raise RuntimeError("cannot be closed")


def test_every_processor_is_closed_once_and_the_stores_after_them(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    given = Closing([])
    driver = driver_of(given, ORDERS, engine="rocksdb")
    assert list(tmp_path.iterdir()) != []
    with pytest.raises(RuntimeError, match="cannot be closed"):
        driver.close()
    driver.close()
    assert len(given.closed) == 1
    assert given.closed[0] is not given
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StoreClosedError, match="make another one"):
        driver.pipe_input("in", "k", "v")
    with pytest.raises(StoreClosedError):
        driver.store("orders")


def test_a_driver_that_cannot_start_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    closed = []

    class Failing(Processor):
        def init(self, context):
            raise RuntimeError("cannot be initialised")

    class Earlier(Processor):
        def close(self):
            closed.append(True)

    topology = (
        Topology().add_source("in", "in").add_processor("p", Earlier, ["in"], stores=[ORDERS])
    )
    topology.add_processor("q", Failing, ["p"])
    with pytest.raises(RuntimeError, match="cannot be initialised") as error:
        TestDriver(topology, engine="lmdb")
    assert error.value.__notes__ == ["the node 'q' raised this error"]
    assert closed == [True]
    assert list(tmp_path.iterdir()) == []


def test_a_processor_must_define_process():
    said = r"Processor must define process\(record\)"
    with driver_of(Processor) as driver, pytest.raises(NotImplementedError, match=said):
        driver.pipe_input("in", "k", "v")

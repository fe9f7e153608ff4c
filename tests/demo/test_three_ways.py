"""The topology of the demo runs in three ways, and the results are equal."""

from __future__ import annotations

import io
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from kstore_core import Headers
from kstore_core.cli.commands.demo import demo
from kstore_core.demo import three_ways
from kstore_core.demo.orders import CollectSessions, orders_topology
from kstore_core.demo.rates import read_rates
from kstore_core.demo.three_ways import Way, are_equal, print_ways, run_three_ways
from kstore_core.processing import TestDriver
from tests.changelog.broker.broker import Broker
from tests.changelog.broker.conftest import broker  # noqa: F401 - a fixture
from tests.support.places import ROOT


def silent(_: str) -> Any:
    return nullcontext()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_the_ways_give_equal_results(broker: Broker, tmp_path: Path) -> None:  # noqa: F811
    ways = run_three_ways(tmp_path / "out", silent, orders=300, servers=broker.servers)
    assert [way.name for way in ways] == ["test driver", "Spark", "Kafka"]
    assert are_equal(ways)
    first = ways[0].outcome
    assert len(first.priced) + len(first.dead) == 300
    assert sum(value["orders"] for *_, value, _ in first.sessions) == len(first.priced)
    assert all({"trace", "rate"} <= {key for key, _ in pairs} for *_, pairs in first.priced)
    out = io.StringIO()
    print_ways(Console(file=out, width=120), ways)
    assert "are equal, with headers" in out.getvalue()
    assert "name a broker" not in out.getvalue()


def test_an_order_without_a_rate_is_a_dead_letter() -> None:
    with TestDriver(orders_topology("a-")) as driver:
        order = {"order": 1, "customer": "ann", "amount": 3}
        driver.pipe_input("a-orders", "CHF", order, timestamp=5)
        driver.pipe_input("a-rates", "CHF", 2.0, timestamp=10, headers=[("rate", b"r")])
        driver.pipe_input("a-rates", "CHF", None, timestamp=30)
        for time in (10, 20, 30):
            driver.pipe_input("a-orders", "CHF", order, timestamp=time)
        dead = driver.read_output("a-dead-letters")
        assert [one.timestamp for one in dead] == [5, 30]
        assert dead[0].headers == Headers([("problem", b"no rate for CHF")])
        assert [one.value["cents"] for one in driver.read_output("a-priced")] == [150, 150]


def test_sessions_do_not_depend_on_the_order_of_orders() -> None:
    times = [0, 40, 90, 200, 35, 120]
    seen = []
    for order in (times, times[::-1], sorted(times)):
        with TestDriver(orders_topology(gap_ms=50)) as driver:
            driver.pipe_input("rates", "CHF", 1.0, timestamp=0)
            for time in order:
                value = {"order": time, "customer": "ann", "amount": 1}
                headers = [("trace", b"%d" % time)]
                driver.pipe_input("orders", "CHF", value, timestamp=time, headers=headers)
            found = driver.store("sessions").find_sessions("ann", 0, 1000)
            seen.append([(s.start, s.end, one.aggregation, list(one.headers)) for s, one in found])
    assert seen[0] == seen[1] == seen[2]
    assert [(start, end, value["orders"]) for start, end, value, _ in seen[0]] == [
        (0, 120, 5), (200, 200, 1)
    ]  # fmt: skip
    assert CollectSessions(5) == CollectSessions(5) != CollectSessions(6)


def test_the_command_compares_and_names_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = list(three_ways.inputs_of(read_rates(), 30))
    lines = [line for line in lines if line.timestamp <= lines[-1].timestamp]  # no later rates
    outcome = three_ways.in_driver(lines)
    other = three_ways.Outcome(outcome.priced[1:], outcome.dead, outcome.sessions)
    for second, code, said in [(outcome, 0, "are equal"), (other, 1, "differ")]:
        ways = [Way("test driver", outcome, 1.0), Way("Spark", second, 2.0)]
        monkeypatch.setattr(three_ways, "run_three_ways", lambda *_, ways=ways, **__: ways)
        done = CliRunner().invoke(demo, ["--processors", "--out", str(tmp_path / "out")])
        assert (done.exit_code, said in done.output) == (code, True)
        assert "name a broker: --kafka HOST:PORT" in done.output
    done = CliRunner().invoke(demo, ["--kafka", "h:1", "--out", str(tmp_path / "out")])
    assert "--kafka needs --processors" in done.output


def test_the_page_shows_the_code_and_the_picture() -> None:
    page = (ROOT / "docs" / "processors-example.md").read_text(encoding="utf-8")
    code = (ROOT / "kstore_core" / "demo" / "orders.py").read_text(encoding="utf-8")
    assert code[code.index("def keep_rate") :].rstrip() in page
    assert orders_topology().mermaid().rstrip() in page
    example = page[page.index("from kstore_core.demo.orders") :]
    block, _, rest = example.partition("```\n\n```text\n")
    out = io.StringIO()
    with redirect_stdout(out):
        exec(block, {})
    assert out.getvalue() == rest.partition("```")[0]

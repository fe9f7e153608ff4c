"""The Spark job of the demo.

The job restores a changelog of rates, and joins each transaction with the rate that was valid at
the time of the transaction. A job of a user looks like :func:`restore`, :func:`join` and
:func:`totals`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from kstore_core import open_state, serdes, stores
from kstore_core.codec import partition
from kstore_core.demo.check import Check, JoinedRow, check_rows
from kstore_core.demo.picture import DARK, LIGHT, draw, largest_move
from kstore_core.demo.rates import RateFile, changelog, read_rates
from kstore_core.demo.tables import changelog_table, transactions_table
from kstore_core.demo.transactions import make_transactions
from kstore_core.errors import SpecError, StateError
from kstore_core.types import VersionedRecordWithHeaders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["RATES", "Result", "StepTime", "Total", "prepare_directory", "run"]

_DAY_MS = 86_400_000
_MARK = ".kstore-demo"
_CHECKED = 5_000
_FILES = 4

RATES = stores.versioned_key_value_with_headers(
    "rates",
    history_retention_ms=40 * 365 * _DAY_MS,
    key=serdes.UTF8,
    value=serdes.FLOAT64,
)
"""The spec of the store, which has all rates of each currency since 1999, with headers."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """The name of a step, the number of its rows, and its duration in seconds."""

    name: str
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of a currency's transactions in euro.

    Attributes
    ----------
    currency : str
    transactions, without_rate : int
        The number of all transactions, and the number of transactions at a time without a rate.
    euro : float
        The sum of the transactions, each at the rate of its time.
    euro_at_latest : float
        The sum of the transactions, all at the latest rate; 0 if the currency has ended.
    """

    currency: str
    transactions: int
    without_rate: int
    euro: float
    euro_at_latest: float


@dataclass(slots=True)
class Result:
    """The results of a run of the demo.

    ``moment`` is the time of the largest change of the rate of ``currency``, in ms since the epoch.
    """

    out: Path
    root: Path
    picture: Path
    source: str = ""
    java: str = ""
    currency: str = ""
    days: int = 0
    currencies: int = 0
    tombstones: int = 0
    moment: int = 0
    steps: list[StepTime] = field(default_factory=list)
    totals: list[Total] = field(default_factory=list)
    rows: list[JoinedRow] = field(default_factory=list)
    check: Check = field(default_factory=lambda: Check(0, 0, []))

    @property
    def page(self) -> Path:
        """The path of the page that :func:`kstore_core.demo.page.write_page` writes."""
        return self.out / "index.html"

    def picture_of(self, *, dark: bool, narrow: bool) -> Path:
        """Return the path of the picture for a screen that is dark or light, and narrow or wide."""
        return self.picture.with_stem(self.picture.stem + "-narrow" * narrow + "-dark" * dark)

    @property
    def misjudged(self) -> tuple[float, float]:
        """The errors of the totals at the latest rates, in euro.

        The first number is the sum of the absolute errors of currencies that still exist. The
        second number is the sum for currencies that have ended. An ended currency has no latest
        rate, so the error is the whole total.
        """
        moved = (t.euro_at_latest - t.euro for t in self.totals if t.euro_at_latest)
        return sum(map(abs, moved)), sum(t.euro for t in self.totals if not t.euro_at_latest)

    @property
    def ended_share(self) -> float:
        """The share of ended currencies in the sum of all absolute errors, from 0 to 1."""
        moved, ended = self.misjudged
        return ended / (moved + ended) if moved + ended else 0.0


Progress = Callable[[str], AbstractContextManager[Any]]
"""A function that takes the name of a step and returns a context manager for the step."""


def run(
    out: Path,
    progress: Progress,
    *,
    transactions: int = 200_000,
    partitions: int = 4,
    currency: str = "CHF",
) -> Result:
    """Run the demo, and write all files to the directory ``out``.

    Raises
    ------
    StateError
        ``out`` contains files, but was not created by an earlier run of the demo.
    SpecError
        The file has no rates of ``currency``.
    EngineUnavailableError
        PySpark or a suitable Java is not installed.
    ModuleNotFoundError
        Another package that the demo needs is not installed.
    """
    file = read_rates()
    if currency not in file.rates:
        raise SpecError(
            f"there are no rates of the currency {currency!r}; the currencies are: "
            f"{', '.join(sorted(file.rates))}"
        )
    prepare_directory(out)
    result = Result(out, out / "rates", out / f"{currency}.png", currency=currency)

    @contextmanager
    def step(name: str, rows: int) -> Iterator[None]:
        started = time.perf_counter()
        with progress(name):
            yield
        result.steps.append(StepTime(name, rows, time.perf_counter() - started))

    with progress("write changelog and transactions"):
        log = changelog_table(changelog(file), source=file.source, partitions=partitions)
        _write(log, out / "changelog", files=1)
        made = transactions_table(make_transactions(file, transactions))
        _write(made, out / "transactions", files=_FILES)
        _describe(result, file, log)
    with progress("start Spark"):
        spark, result.java = _session()
    with step(f"restore the store, {partitions} shards", len(log)):
        restore(spark, out / "changelog", result.root, partitions)
    with step("join as of each row's time", len(made)):
        join(spark, out / "transactions", result.root).write.parquet(str(out / "joined"))
    with step("total in euro", len(made)):
        result.totals = totals(spark, out / "joined", result.root)
    joined = ds.dataset(out / "joined").to_table()
    sample = _sample(joined)
    with step("check against the file", len(sample)):
        result.check = check_rows(file, _rows(sample))
    result.rows = list(_rows(_examples(joined)))
    with progress("draw"):
        steps = history(result.root, currency, partitions)
        points = _points(joined, currency)
        for narrow in (False, True):
            for palette in (LIGHT, DARK):
                target = result.picture_of(dark=palette is DARK, narrow=narrow)
                draw(target, currency, steps, points, palette=palette, narrow=narrow)
        result.moment = largest_move(steps)
    return result


def restore(spark: SparkSession, log: Path, root: Path, partitions: int) -> None:
    """Restore the changelog ``log`` to a partitioned store with one shard per partition."""
    from kstore_core.spark import write_store

    write_store(spark.read.parquet(str(log)), root, RATES, partitions=partitions)


def join(spark: SparkSession, transactions: Path, root: Path) -> DataFrame:
    """Join each transaction with the rate at its time, and with the headers of this rate."""
    from kstore_core.spark import temporal_join

    rows = spark.read.parquet(str(transactions))
    return temporal_join(rows, root, key="currency", timestamp="time", prefix="rate_")


def totals(spark: SparkSession, joined: Path, root: Path) -> list[Total]:
    """Return the totals of all currencies in euro.

    Each total is computed with the rate at the time of each transaction, and with the latest rate.
    """
    from pyspark.sql import functions

    rows = spark.read.parquet(str(joined))
    store = spark.read.format("kstore").option("columns", "key,value").load(str(root.absolute()))
    latest = store.withColumnsRenamed({"key": "currency", "value": "latest"})
    grouped = rows.join(functions.broadcast(latest), "currency", "left").groupBy("currency")
    found = grouped.agg(
        functions.expr("count(*) AS transactions"),
        functions.expr("count_if(rate_value IS NULL) AS without_rate"),
        functions.expr("coalesce(sum(amount / rate_value), 0) AS euro"),
        functions.expr("coalesce(sum(amount / latest), 0) AS euro_at_latest"),
    )
    return [Total(**row.asDict()) for row in found.orderBy("currency").collect()]


def history(root: Path, currency: str, partitions: int) -> list[VersionedRecordWithHeaders[float]]:
    """Read every version of a currency's rate from its shard, without Spark."""
    shard = shard_directory(root, currency, partitions)
    with open_state(shard, read_only=True) as state:
        return list(state.open(RATES).history(currency))


def shard_directory(root: Path, currency: str, partitions: int) -> Path:
    """Return the state directory of the shard that contains the rates of a currency."""
    from kstore_core.spark.root.root import Root

    shard = Root.at(root).load().shards[partition(serdes.UTF8.encode(currency), partitions)]
    if shard.path is None:
        raise StateError(f"the store at {root} has no rates of {currency}")
    return root / shard.path


def prepare_directory(out: Path) -> None:
    """Make ``out`` an empty directory. Raise StateError if it has files that are not the demo's."""
    if out.exists() and any(out.iterdir()):
        if not (out / _MARK).exists():
            raise StateError(
                f"{out} has files, but it is not the directory of an earlier demo. Name another "
                "directory: --out DIR"
            )
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / _MARK).touch()


def _session() -> tuple[SparkSession, str]:
    from kstore_core.spark.runtime.session import local_session

    spark = local_session("kstore demo")
    assert spark._jvm is not None
    java = spark._jvm.System.getProperty("java.version")
    return spark, f"Spark {spark.version} on Java {java}"


def _describe(result: Result, file: RateFile, log: pa.Table) -> None:
    result.source = file.source
    result.days = len(file.days)
    result.currencies = len(file.rates)
    result.tombstones = log["value"].null_count


def _write(table: pa.Table, directory: Path, *, files: int) -> None:
    """Write a table to several files, so that Spark reads it with one task per file."""
    directory.mkdir()
    size = -(-len(table) // files)
    for number in range(files):
        pq.write_table(table.slice(number * size, size), directory / f"{number}.parquet")


def _sample(joined: pa.Table) -> pa.Table:
    """Return a sample of the joined rows, at regular intervals."""
    return joined.sort_by("id").take(
        pa.array(range(0, len(joined), max(1, len(joined) // _CHECKED)))
    )


def _examples(joined: pa.Table) -> pa.Table:
    """Return some joined rows as examples.

    Some have a current currency, some have a currency that has ended, and one has no rate.
    """
    rows = joined.sort_by("id")
    found = [
        rows.filter(pc.and_(pc.equal(rows["currency"], name), pc.is_valid(rows["rate_value"])))[:1]
        for name in ("USD", "CHF", "TRL", "EEK")
    ]
    found.append(rows.filter(pc.is_null(rows["rate_value"]))[:1])
    return pa.concat_tables(found)


def _points(joined: pa.Table, currency: str) -> list[tuple[int, float]]:
    """Return the time and the rate of each transaction in ``currency`` that has a rate."""
    rows = joined.filter(
        pc.and_(pc.equal(joined["currency"], currency), pc.is_valid(joined["rate_value"]))
    )
    return [(row.time, row.rate) for row in _rows(rows) if row.rate is not None]


def _rows(table: pa.Table) -> Iterator[JoinedRow]:
    times = (
        table["time"].cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64()).to_pylist()
    )
    columns = ("currency", "amount", "rate_value", "rate_headers")
    for time_ms, currency, amount, rate, headers in zip(
        times, *(table[name].to_pylist() for name in columns), strict=True
    ):
        pairs = headers and [(header["key"], header["value"]) for header in headers]
        yield JoinedRow(currency, time_ms, amount, rate, pairs)

"""The command ``kstore demo``, which runs a complete Spark job on real data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console

from kstore_core.cli.output.exit_codes import FINDINGS
from kstore_core.cli.parameters.values import NEW_DIRECTORY

__all__ = ["demo"]


@click.command()
@click.option(
    "--out",
    type=NEW_DIRECTORY,
    default=Path("demo-output"),
    show_default=True,
    help="The directory for the store and the report. If an earlier run made the directory, its "
    "files are deleted first.",
)
@click.option("--transactions", type=click.IntRange(min=1), default=200_000, show_default=True)
@click.option("--currency", default="CHF", show_default=True, help="The currency to plot.")
@click.option(
    "--processors",
    is_flag=True,
    help="Instead, run a topology of processors in the test driver and on Spark (with --kafka also "
    "on Kafka), and compare the results.",
)
@click.option("--orders", type=click.IntRange(min=1), default=2000, show_default=True)
@click.option("--kafka", metavar="HOST:PORT", help="The brokers for --processors.")
@click.pass_context
def demo(
    ctx: click.Context,
    out: Path,
    transactions: int,
    currency: str,
    processors: bool,
    orders: int,
    kafka: str | None,
) -> None:
    """Join 200,000 transactions with 27 years of exchange rates, as of the transaction times.

    The rates are those of the European Central Bank. Spark restores them from a changelog into a
    versioned store with headers, and joins each transaction with the rate that was valid at its
    time. Then the result is compared with the bank's file. The exit code is 1 if a row differs.
    """
    if processors:
        from kstore_core.demo.three_ways import are_equal, print_ways, run_three_ways

        ways = run_three_ways(out, _progress, orders=orders, servers=kafka)
        print_ways(_console(), ways)
        if not are_equal(ways):
            ctx.exit(FINDINGS)
        return
    if kafka is not None:
        raise click.UsageError("--kafka needs --processors")
    from kstore_core.demo.job import run
    from kstore_core.demo.page import write_page
    from kstore_core.demo.report import print_report

    result = run(out, _progress, transactions=transactions, currency=currency.upper())
    write_page(result)
    print_report(_console(), result)
    if result.check.differences:
        ctx.exit(FINDINGS)


def _console() -> _Piped:
    console = _Piped()
    return console if console.is_terminal else _Piped(width=160)


class _Piped(Console):
    """A console that raises BrokenPipeError for a closed pipe. The command group handles it."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@contextmanager
def _progress(step: str) -> Iterator[None]:
    """Show a spinner with the elapsed time of a step, if stderr is a terminal."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(finished_text="[green]✓"), TextColumn(step), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(step, total=1)
        yield
        progress.update(task, completed=1)

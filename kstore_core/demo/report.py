"""The report of the demo's results, which is printed on the console."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kstore_core.demo.check import JoinedRow
from kstore_core.demo.job import Result, StepTime, Total

__all__ = ["commands", "print_report"]

_ANY_WIDTH = 10_000
_TIME = "%Y-%m-%dT%H:%MZ"


def print_report(console: Console, result: Result) -> None:
    """Print totals, joined rows, speed, the check, the page, and commands to try next."""
    records = result.steps[0].rows
    console.print(
        f"\n[bold]{result.currencies} currencies on {result.days:,} days[/]: {records:,} records, "
        f"{result.tombstones} of them tombstones of currencies that ended"
    )
    console.print(f"Rates of the {result.source}. {result.java}", style="dim")
    console.print()
    _print(console, _totals(result.totals))
    _off(console, result)
    console.print("\n[bold]A few joined rows, with the headers of the rate they were joined to[/]")
    _print(console, _rows(result.rows))
    console.print("\n[bold]Speed of one cold run[/]")
    _print(console, _steps(result.steps))
    _check(console, result)
    console.print(f"\nPage, with a picture: {result.page}", soft_wrap=True, highlight=False)
    console.print(f"\n[bold]Try next[/], on the store that was just made in {result.root}:")
    for command in commands(result):
        console.print(f"  {command}", soft_wrap=True, highlight=False)


def _print(console: Console, table: Table) -> None:
    """Print a table. If it is wider than the console, print each cell on a separate line."""
    needed = console.measure(table, options=console.options.update(width=_ANY_WIDTH)).maximum
    if needed <= console.width:
        console.print(table)
        return
    if table.title:
        console.print(table.title, style="bold")
    names = [column.header for column in table.columns]
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        fields = Table.grid(padding=(0, 2, 0, 0))
        for name, cell in zip(names, cells, strict=True):
            fields.add_row(name, cell)
        console.print(fields)
        console.print()


def commands(result: Result) -> list[str]:
    """Return commands that read the new store, for example around the rate's largest change.

    The user can run the commands as they are printed.
    """
    kstore, root, currency = _kstore(), result.root, result.currency
    moment = datetime.fromtimestamp(result.moment / 1000, UTC)
    before, after = (moment + timedelta(days=days) for days in (-4, 4))
    return [
        f"{kstore} inspect {root}",
        f"{kstore} get {root} rates {currency} --as-of {moment - timedelta(hours=1):{_TIME}}",
        f"{kstore} history {root} rates {currency} --from {before:{_TIME}} --to {after:{_TIME}}",
        f"{kstore} dump {root} rates --as-of {moment:{_TIME}} --json",
    ]


def _kstore() -> str:
    """Return the name of the command ``kstore``, or its path if the shell cannot find it."""
    called = Path(sys.argv[0])
    found = shutil.which("kstore")
    if called.name != "kstore" or (found is not None and Path(found).samefile(called)):
        return "kstore"
    return str(called)


def _totals(totals: Sequence[Total]) -> Table:
    table = Table(title="Totals in euro", title_justify="left", title_style="bold", box=None)
    table.add_column("currency")
    for name in ("transactions", "no rate then", "euro", "with the latest rate", "off by"):
        table.add_column(name, justify="right")
    for total in totals:
        at_latest = f"{total.euro_at_latest:,.2f}" if total.euro_at_latest else "none any more"
        off = f"{total.euro_at_latest - total.euro:+,.2f}"
        missing = f"{total.without_rate:,}" if total.without_rate else ""
        table.add_row(
            total.currency,
            f"{total.transactions:,}",
            missing,
            f"{total.euro:,.2f}",
            at_latest,
            off,
        )
    table.add_section()
    euro = sum(total.euro for total in totals)
    latest_sum = sum(total.euro_at_latest for total in totals)
    table.add_row(
        "all",
        f"{sum(total.transactions for total in totals):,}",
        f"{sum(total.without_rate for total in totals):,}",
        f"{euro:,.2f}",
        f"{latest_sum:,.2f}",
        f"{latest_sum - euro:+,.2f}",
        style="bold",
    )
    return table


def _off(console: Console, result: Result) -> None:
    """Print the errors of the totals that a store without history would give."""
    of_moved, of_ended = result.misjudged
    ended = sum(not total.euro_at_latest for total in result.totals)
    console.print(
        f"\nA store that keeps only the latest rate would have given totals that are off by "
        f"[bold]{of_moved + of_ended:,.2f} euro[/]: {of_moved:,.2f} where rates have moved, and "
        f"{of_ended:,.2f} ({result.ended_share:.0%}) of {ended} currencies that ended. This is the "
        "sum of absolute errors per currency; in the column above errors of both signs cancel out."
    )


def _rows(rows: Sequence[JoinedRow]) -> Table:
    table = Table(box=None)
    table.add_column("time")
    table.add_column("amount", justify="right")
    table.add_column("")
    table.add_column("rate", justify="right")
    table.add_column("euro", justify="right")
    table.add_column("headers")
    for row in rows:
        moment = datetime.fromtimestamp(row.time / 1000, UTC).strftime(_TIME)
        rate = "none" if row.rate is None else f"{row.rate:,.10g}"
        euro = "" if row.rate is None else f"{row.amount / row.rate:,.2f}"
        headers = "\n".join(f"{key}={(value or b'').decode()}" for key, value in row.headers or [])
        table.add_row(moment, f"{row.amount:,.2f}", row.currency, rate, euro, Text(headers))
    return table


def _steps(steps: Sequence[StepTime]) -> Table:
    table = Table(box=None)
    table.add_column("step")
    for name in ("rows", "seconds", "rows/s"):
        table.add_column(name, justify="right")
    for step in steps:
        rate = f"{step.rows / step.seconds:,.0f}"
        table.add_row(step.name, f"{step.rows:,}", f"{step.seconds:.1f}", rate)
    return table


def _check(console: Console, result: Result) -> None:
    check = result.check
    if check.differences:
        console.print(
            f"\n[bold red]{len(check.differences):,} of {check.rows:,} rows differ from the raw "
            "file:[/]"
        )
        for difference in check.differences[:5]:
            console.print(f"  {difference}", highlight=False)
        return
    console.print(
        f"\n[bold green]Checked[/]: {check.rows:,} rows looked up in the raw file, rate and "
        f"publication date, and all agree ({check.without_rate} of them without a rate)"
    )

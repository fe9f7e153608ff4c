"""The HTML page with the results of the demo. The pictures are in the same directory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from kstore_core.demo.check import JoinedRow
from kstore_core.demo.job import Result
from kstore_core.demo.report import commands

__all__ = ["write_page"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2933; --quiet: #66727f; --line: #e4e7eb;
  --ground: #ffffff; --soft: #f5f7f9; --good: #1a7f4b; --bad: #c0392b; --step: #1c5d99; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaee; --quiet: #9aa5b1; --line: #333c45;
  --ground: #14191e; --soft: #1c2329; --good: #4cc38a; --bad: #ff7b6b; --step: #6cb2f0; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--ground);
  max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .6rem; }
p { margin: .4rem 0; max-width: 46rem; }
.quiet, figcaption { color: var(--quiet); font-size: .9rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .75rem;
  margin: 1.6rem 0; }
.figures div { background: var(--soft); border-radius: .5rem; padding: .9rem 1rem; }
.figures b { display: block; font-size: 1.45rem; color: var(--step); }
.good { color: var(--good); } .bad { color: var(--bad); }
figure { margin: 1.5rem 0; } img { width: 100%; border-radius: .5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; }
th, td { padding: .3rem 1.2rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.n { text-align: right; } tr:last-child td { border-bottom: 0; }
pre { background: var(--soft); border-radius: .5rem; padding: .9rem 1rem; overflow-x: auto;
  font-size: .85rem; }
"""


def write_page(result: Result) -> None:
    """Write ``index.html`` to the output directory of the demo."""
    result.page.write_text(_page(result), encoding="utf-8")


def _page(result: Result) -> str:
    title = f"{_sum(result):,} transactions at the rate of their own time"
    parts = [
        f"<h1>{title}</h1>",
        f"<p class=quiet>Rates of the {escape(result.source)}. {escape(result.java)}.</p>",
        _figures(result),
        _figure(result),
        _totals(result),
        _rows(result.rows),
        _steps(result),
        _next(result),
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>kstore: {title}</title><style>{_STYLE}</style>"
    )
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def _figures(result: Result) -> str:
    moved, ended = result.misjudged
    check = result.check
    wrong = len(check.differences)
    rows = f"{check.rows:,}"
    if wrong:
        verdict = ("bad", f"{wrong:,} of {rows}", "rows differ from the bank's file")
    else:
        verdict = ("good", rows, "rows looked up in the bank's file agree")
    cards = [
        ("", f"{result.steps[0].rows:,}", f"records of {result.currencies} currencies restored"),
        ("", f"{_rate(result):,.0f}", "rows joined per second, in one cold run"),
        (
            "",
            f"€{moved + ended:,.0f}",
            (
                "sum of absolute errors per currency at the latest rates; "
                f"{result.ended_share:.0%} of it from currencies that ended"
            ),
        ),
        verdict,
    ]
    inner = "".join(
        f"<div><b class='{kind}'>{n}</b>{escape(what)}</div>" for kind, n, what in cards
    )
    return f"<div class=figures>{inner}</div>"


def _figure(result: Result) -> str:
    currency = escape(result.currency)

    def file(*, dark: bool, narrow: bool) -> str:
        return escape(result.picture_of(dark=dark, narrow=narrow).name, quote=True)

    dark, narrow = "(prefers-color-scheme: dark)", "(max-width: 700px)"
    return (
        "<figure><picture>"
        f'<source media="{narrow} and {dark}" srcset="{file(dark=True, narrow=True)}">'
        f'<source media="{narrow}" srcset="{file(dark=False, narrow=True)}">'
        f'<source media="{dark}" srcset="{file(dark=True, narrow=False)}">'
        f'<img src="{file(dark=False, narrow=False)}" '
        f'alt="The rate of {currency} as steps, with transactions on it"></picture>'
        f"<figcaption>{currency}: every version of its rate in the store, and the "
        "transactions that were joined with them.</figcaption></figure>"
    )


def _totals(result: Result) -> str:
    lines = [
        (
            total.currency,
            f"{total.transactions:,}",
            f"{total.without_rate:,}" if total.without_rate else "",
            f"{total.euro:,.2f}",
            f"{total.euro_at_latest:,.2f}" if total.euro_at_latest else "none any more",
            f"{total.euro_at_latest - total.euro:+,.2f}",
        )
        for total in result.totals
    ]
    head = ("currency", "transactions", "no rate then", "euro", "with the latest rate", "off by")
    return (
        "<h2>Totals in euro</h2><p>A store that keeps only the latest rate gives the column “with "
        f"the latest rate”.</p>{_table(head, lines, numbers=range(1, 6))}"
    )


def _rows(rows: Sequence[JoinedRow]) -> str:
    lines = [
        (
            f"{datetime.fromtimestamp(row.time / 1000, UTC):%Y-%m-%d %H:%M}",
            f"{row.amount:,.2f} {row.currency}",
            "none" if row.rate is None else f"{row.rate:,.10g}",
            "" if row.rate is None else f"{row.amount / row.rate:,.2f}",
            ", ".join(f"{k}={(v or b'').decode()}" for k, v in row.headers or []),
        )
        for row in rows
    ]
    head = ("time (UTC)", "amount", "rate", "euro", "headers of the rate's record")
    return f"<h2>A few joined rows</h2>{_table(head, lines, numbers=range(1, 4))}"


def _steps(result: Result) -> str:
    lines = [
        (step.name, f"{step.rows:,}", f"{step.seconds:.1f}", f"{step.rows / step.seconds:,.0f}")
        for step in result.steps
    ]
    head = ("step", "rows", "seconds", "rows/s")
    return (
        f"<h2>Speed of one cold run, on this machine</h2>{_table(head, lines, numbers=range(1, 4))}"
    )


def _next(result: Result) -> str:
    root = result.root.absolute()
    reading = (
        'spark.read.format("kstore").option("as_of", '
        f'"{datetime.fromtimestamp(result.moment / 1000, UTC):%Y-%m-%dT%H:%MZ}")'
        f".load({json.dumps(str(root))}).show()"
    )
    shell = "\n".join(escape(command) for command in commands(result))
    return (
        f"<h2>Try next</h2><p>On the store that was just made:</p><pre>{shell}</pre>"
        f"<p>And from PySpark:</p><pre>{escape(reading)}</pre>"
    )


def _table(head: Sequence[str], lines: Iterable[Sequence[str]], *, numbers: range) -> str:
    """Return an HTML table of escaped texts.

    ``numbers`` are the indexes of the columns that are aligned to the right.
    """

    def cells(tag: str, texts: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if place in numbers else ''}>{escape(text)}</{tag}>"
            for place, text in enumerate(texts)
        )

    body = "".join(f"<tr>{cells('td', line)}</tr>" for line in lines)
    return f"<div class=wide><table><tr>{cells('th', head)}</tr>{body}</table></div>"


def _sum(result: Result) -> int:
    return sum(total.transactions for total in result.totals)


def _rate(result: Result) -> float:
    """Return the number of rows per second of the join, which is the second step."""
    join = result.steps[1]
    return join.rows / join.seconds

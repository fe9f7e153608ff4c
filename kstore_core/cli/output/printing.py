"""Functions that print JSON documents, names with values, and tables."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import click

from kstore_core.cli.output.rendering import json_text, printable

__all__ = ["print_fields", "print_json", "print_table"]

_MEASURED = 200
_WIDEST = 60


def print_json(document: Any) -> None:
    """Print one JSON document on one line."""
    click.echo(json_text(document))


def print_fields(fields: Sequence[tuple[str, str]], *, indent: int = 0) -> None:
    """Print pairs of a name and a value, one pair per line.

    On a terminal, a long value is wrapped, and its next lines are indented like its first line.
    """
    width = max(len(name) for name, _ in fields)
    begin = indent + width + 2
    for name, value in fields:
        title = click.style(name.ljust(width), dim=True)
        first, *more = _folded(printable(value), begin)
        click.echo(f"{' ' * indent}{title}  {first}".rstrip())
        for line in more:
            click.echo(" " * begin + line)


def print_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in aligned columns under titles.

    The first rows determine the width of each column, so they are printed before all rows have been
    read. A longer cell in a later row shifts only the rest of its row. If the terminal is too
    narrow for the first rows, each row is printed as fields, one field per line.
    """
    rest: Iterator[Sequence[str]] = iter(rows)
    measured = list(islice(rest, _MEASURED))
    lengths = [
        max(len(printable(row[column])) for row in [titles, *measured])
        for column in range(len(titles))
    ]
    there = _columns()
    if there is not None and sum(lengths) + 2 * (len(titles) - 1) > there:
        for number, row in enumerate(chain(measured, rest)):
            if number:
                click.echo()
            print_fields([*zip(titles, row, strict=True)])
        return
    widths = [min(_WIDEST, length) for length in lengths]
    click.secho(_line(titles, widths), dim=True)
    for row in chain(measured, rest):
        click.echo(_line([printable(cell) for cell in row], widths))


def _columns() -> int | None:
    """Return the width of the terminal, or None if the output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _folded(text: str, begin: int) -> list[str]:
    """Wrap a text into lines that fit into the terminal from the column ``begin`` on.

    Lines are broken only between words.
    """
    there = _columns()
    if there is None:
        return [text]
    lines = textwrap.wrap(
        text,
        max(there - begin, 1),
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=False,
    )
    return lines or [""]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()

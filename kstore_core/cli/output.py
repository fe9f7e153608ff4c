"""Printing: a line of JSON, or columns for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import click

from kstore_core.cli.rendering import json_text, printable

__all__ = ["print_fields", "print_json", "print_table"]

_MEASURED = 200
_WIDEST = 60


def print_json(document: Any) -> None:
    """One document on one line."""
    click.echo(json_text(document))


def print_fields(fields: Sequence[tuple[str, str]], *, indent: int = 0) -> None:
    """Names and values below each other."""
    width = max(len(name) for name, _ in fields)
    for name, value in fields:
        title = click.style(name.ljust(width), dim=True)
        click.echo(f"{' ' * indent}{title}  {printable(value)}".rstrip())


def print_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows in aligned columns under their titles, as they come.

    The first rows decide how wide a column is; a longer cell later on moves its own row only.
    """
    rest: Iterator[Sequence[str]] = iter(rows)
    measured = list(islice(rest, _MEASURED))
    widths = [
        min(_WIDEST, max(len(row[column]) for row in [titles, *measured]))
        for column in range(len(titles))
    ]
    click.secho(_line(titles, widths), dim=True)
    for row in chain(measured, rest):
        click.echo(_line([printable(cell) for cell in row], widths))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()

"""The command ``kstore dump``, which prints the rows of a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import click

from kstore_core.cli.output.printing import print_json, print_table
from kstore_core.cli.parameters.options import json_option, path_argument, store_options
from kstore_core.cli.parameters.places import places
from kstore_core.cli.parameters.ranges import Range
from kstore_core.cli.parameters.values import TIME
from kstore_core.cli.reading import Reader, opened, titles

__all__ = ["dump"]


@click.command()
@path_argument
@click.argument("store")
@click.option(
    "--as-of",
    type=TIME,
    help="For a versioned store: print the versions that were valid at this time.",
)
@click.option(
    "--from",
    "lo",
    metavar="KEY|TIME",
    help="The first key, inclusive. For a window or session store: the first time.",
)
@click.option(
    "--to",
    "hi",
    metavar="KEY|TIME",
    help="The last key, inclusive. For a window or session store: the last time.",
)
@click.option("--key", metavar="KEY", help="Print only the rows of this key.")
@click.option("--key-from", metavar="KEY", help="The first key, inclusive; for any shape of store.")
@click.option("--key-to", metavar="KEY", help="The last key, inclusive; for any shape of store.")
@click.option(
    "--key-hex", "is_hex", is_flag=True, help="The keys in the options are stored bytes, in hex."
)
@click.option("--reverse", is_flag=True, help="Print the last row first.")
@click.option("--limit", type=click.IntRange(min=0), help="The greatest number of rows to print.")
@store_options
@json_option
def dump(
    path: Path,
    store: str,
    lo: str | None,
    hi: str | None,
    key: str | None,
    key_from: str | None,
    key_to: str | None,
    is_hex: bool,
    as_of: int | None,
    reverse: bool,
    limit: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Print the rows of STORE in the order of their stored keys, one per line.

    For a versioned store the command prints the latest version of each key, or the versions that
    were valid at --as-of. For a window store it prints the windows that begin in the time
    range from --from to --to. For a session store it prints the sessions that overlap this range.
    Windows and sessions are printed segment by segment. A store that Spark wrote is printed shard
    by shard.
    """
    wanted = Range(lo, hi, key, key_from, key_to, is_hex, as_of, reverse)
    directories = places(path).directories
    with ExitStack() as stack:
        readers = [
            stack.enter_context(opened(directory, store, options))
            for directory in (reversed(directories) if reverse else directories)
        ]

        def rows() -> Iterator[tuple[Reader, Any, Any]]:
            for reader in readers:
                with wanted.scan(reader) as scan:
                    for at, record in scan:
                        yield reader, at, record

        chosen = islice(rows(), limit)
        if as_json:
            for reader, at, record in chosen:
                print_json(reader.document(at, record))
        elif readers:
            cells = (reader.cells(at, record) for reader, at, record in chosen)
            print_table(titles(readers[0].spec), cells)

"""``kstore dump``: every row of a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import click

from kstore_core.cli.arguments import TIME, key_bytes
from kstore_core.cli.options import json_option, path_argument, store_options
from kstore_core.cli.output import print_json, print_table
from kstore_core.cli.places import places
from kstore_core.cli.reading import Reader, opened, titles
from kstore_core.errors import SpecError

__all__ = ["dump"]


@click.command()
@path_argument
@click.argument("store")
@click.option("--as-of", type=TIME, help="Of a versioned store: the versions valid at this time.")
@click.option("--from", "lo", metavar="KEY", help="The first key.")
@click.option("--to", "hi", metavar="KEY", help="The last key, itself included.")
@click.option("--key-hex", is_flag=True, help="--from and --to are stored bytes, in hex.")
@click.option("--reverse", is_flag=True, help="Last key first.")
@click.option("--limit", type=click.IntRange(min=0), help="At most so many rows.")
@store_options
@json_option
def dump(
    path: Path,
    store: str,
    as_of: int | None,
    lo: str | None,
    hi: str | None,
    key_hex: bool,
    reverse: bool,
    limit: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Print the rows of STORE in the order of their stored keys, one a line.

    Of a versioned store it is the latest version of each key, unless --as-of names another time. A
    store that Spark wrote is printed shard by shard.
    """
    with ExitStack() as stack:
        readers = [
            stack.enter_context(opened(directory, store, options))
            for directory in places(path).directories
        ]

        def rows() -> Iterator[tuple[Reader, bytes, Any]]:
            for reader in readers:
                ends = [
                    None if end is None else key_bytes(end, reader.key, is_hex=key_hex)
                    for end in (lo, hi)
                ]
                if as_of is not None and not reader.format.versioned:
                    raise SpecError(
                        f"the store {store!r} keeps no history, so --as-of says nothing"
                    )
                when = () if as_of is None else (as_of,)
                with reader.store.range(*ends, *when, reverse=reverse) as scan:
                    for key, record in scan:
                        yield reader, key, record

        chosen = islice(rows(), limit)
        if as_json:
            for reader, key, record in chosen:
                print_json(reader.document(key, record))
        elif readers:
            cells = (reader.cells(key, record) for reader, key, record in chosen)
            print_table(titles(readers[0].format), cells)

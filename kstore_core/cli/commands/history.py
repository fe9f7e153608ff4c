"""The command ``kstore history``, which prints every version, window or session of a key."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import click

from kstore_core.cli.output.exit_codes import NotFoundError
from kstore_core.cli.output.printing import print_json, print_table
from kstore_core.cli.output.rendering import printable
from kstore_core.cli.parameters.options import json_option, key_arguments, store_options
from kstore_core.cli.parameters.places import places
from kstore_core.cli.parameters.values import TIME, check_order, key_bytes
from kstore_core.cli.reading import Reader, opened, titles
from kstore_core.errors import SpecError
from kstore_core.types import Windowed

__all__ = ["history"]


@click.command()
@key_arguments
@click.option("--from", "from_ts", type=TIME, help="The start of the time range, inclusive.")
@click.option("--to", "to_ts", type=TIME, help="The end of the time range, inclusive.")
@store_options
@json_option
def history(
    path: Path,
    store: str,
    key: str,
    key_hex: bool,
    from_ts: int | None,
    to_ts: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Print the versions, windows or sessions of KEY, one per line, oldest first.

    The range of times from --from to --to limits the output. The command prints the versions and
    sessions that overlap the range. Of a window store, it prints the windows that begin in it. A
    gap between two versions means that the key was deleted. The exit code is 1 if nothing is found.
    """
    check_order(from_ts, to_ts)
    for directory in places(path).by_key(key, is_hex=key_hex, key_serde=options["key_serde"]):
        with opened(directory, store, options) as reader:
            raw = key_bytes(key, reader.key, is_hex=key_hex)
            rows = _rows(reader, raw, from_ts, to_ts)
            first = next(rows, None)
            if first is None:
                continue
            found = chain([first], rows)
            if as_json:
                for at, record in found:
                    print_json(reader.document(at, record))
            else:
                cells = (reader.cells(at, record)[1:] for at, record in found)
                print_table(titles(reader.spec)[1:], cells)
            return
    raise NotFoundError(
        f"{printable(key)!r} has no value in the store {store!r} in the given time range"
    )


def _rows(
    reader: Reader, key: bytes, from_ts: int | None, to_ts: int | None
) -> Iterator[tuple[bytes | Windowed[bytes], Any]]:
    """Return the rows of a key within a range of times, oldest first."""
    spec = reader.spec
    if spec.shape == "key_value":
        raise SpecError(
            f"the store {spec.name!r} is a key-value store ({spec.format.name}), which has no "
            "history. Print the value of the key with: kstore get PATH STORE KEY"
        )
    if spec.shape == "versioned":
        return ((key, record) for record in reader.store.history(key, from_ts, to_ts))
    return iter(reader.in_time(key, key, from_ts, to_ts))

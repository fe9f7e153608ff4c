"""``kstore history``: every version of a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kstore_core.cli.arguments import TIME, key_bytes
from kstore_core.cli.errors import NotFoundError
from kstore_core.cli.options import json_option, key_arguments, store_options
from kstore_core.cli.output import print_json, print_table
from kstore_core.cli.places import places
from kstore_core.cli.reading import opened, titles
from kstore_core.errors import SpecError

__all__ = ["history"]


@click.command()
@key_arguments
@click.option("--from", "from_ts", type=TIME, help="Only versions still valid at this time.")
@click.option("--to", "to_ts", type=TIME, help="Only versions valid by this time.")
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
    """Print the versions of KEY in a versioned store, one a line, oldest first.

    A gap between one version's end and the next one's beginning is a deletion. Exit code 1 if
    there is no version.
    """
    if from_ts is not None and to_ts is not None and from_ts > to_ts:
        raise click.BadParameter(f"--from {from_ts} lies after --to {to_ts}", param_hint="--from")
    told = options["key_serde"]
    for directory in places(path).by_key(key, is_hex=key_hex, key_serde=told):
        with opened(directory, store, options) as reader:
            if not reader.format.versioned:
                raise SpecError(
                    f"the store {store!r} is a key-value store ({reader.format.name}), which keeps "
                    "no history; try kstore get"
                )
            raw = key_bytes(key, reader.key, is_hex=key_hex)
            versions = reader.store.history(raw, from_ts, to_ts)
            if versions and as_json:
                for record in versions:
                    print_json(reader.document(raw, record))
            elif versions:
                rows = [reader.cells(raw, record)[1:] for record in versions]
                print_table(titles(reader.format)[1:], rows)
            if versions:
                return
    raise NotFoundError(f"{key!r} has no version in the store {store!r} in that time")

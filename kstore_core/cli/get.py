"""``kstore get``: one value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kstore_core.cli.arguments import TIME, key_bytes
from kstore_core.cli.errors import NotFoundError
from kstore_core.cli.options import json_option, key_arguments, store_options
from kstore_core.cli.output import print_fields, print_json
from kstore_core.cli.places import places
from kstore_core.cli.reading import opened
from kstore_core.cli.rendering import printable
from kstore_core.errors import SpecError

__all__ = ["get"]


@click.command()
@key_arguments
@click.option("--as-of", type=TIME, help="Of a versioned store: the version valid at this time.")
@store_options
@json_option
def get(
    path: Path,
    store: str,
    key: str,
    key_hex: bool,
    as_of: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Print the value of KEY, with all that is stored with it.

    KEY is text as the store's key serde reads it. Exit code 1 if there is no value.
    """
    told = options["key_serde"]
    for directory in places(path).by_key(key, is_hex=key_hex, key_serde=told):
        with opened(directory, store, options) as reader:
            raw = key_bytes(key, reader.key, is_hex=key_hex)
            if not reader.format.versioned and as_of is not None:
                raise SpecError(f"the store {store!r} keeps no history, so --as-of says nothing")
            found = reader.store.get(raw, as_of) if as_of is not None else reader.store.get(raw)
            if found is not None:
                if as_json:
                    print_json(reader.document(raw, found))
                else:
                    print_fields(reader.fields(raw, found))
                return
    when = "" if as_of is None else " at that time"
    raise NotFoundError(f"{printable(key)!r} has no value in the store {store!r}{when}")

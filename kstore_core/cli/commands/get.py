"""The command ``kstore get``, which prints the value of a key."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from kstore_core.cli.describing import in_words
from kstore_core.cli.output.exit_codes import NotFoundError
from kstore_core.cli.output.printing import print_fields, print_json
from kstore_core.cli.output.rendering import printable
from kstore_core.cli.parameters.options import json_option, key_arguments, store_options
from kstore_core.cli.parameters.places import places
from kstore_core.cli.parameters.values import TIME, key_bytes
from kstore_core.cli.reading import Reader, opened
from kstore_core.errors import SpecError
from kstore_core.types import Windowed

__all__ = ["get"]

_TIMES = {
    "key_value": (),
    "versioned": ("as_of",),
    "window": ("window_start",),
    "session": ("session_start", "session_end"),
}


@click.command()
@key_arguments
@click.option(
    "--as-of",
    type=TIME,
    help="For a versioned store: print the version that was valid at this time.",
)
@click.option("--window-start", type=TIME, help="For a window store: the start of the window.")
@click.option("--session-start", type=TIME, help="For a session store: the start of the session.")
@click.option("--session-end", type=TIME, help="For a session store: the end of the session.")
@store_options
@json_option
def get(
    path: Path,
    store: str,
    key: str,
    key_hex: bool,
    as_of: int | None,
    window_start: int | None,
    session_start: int | None,
    session_end: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Print the value of KEY, with its timestamp and headers.

    KEY is a text that the store's key serde converts to a key. If the store retains duplicates, all
    values of the window are printed. The exit code is 1 if there is no value.
    """
    times = {
        "as_of": as_of,
        "window_start": window_start,
        "session_start": session_start,
        "session_end": session_end,
    }
    for directory in places(path).by_key(key, is_hex=key_hex, key_serde=options["key_serde"]):
        with opened(directory, store, options) as reader:
            _check_times(reader, times)
            raw = key_bytes(key, reader.key, is_hex=key_hex)
            found = False
            for at, record in _rows(reader, raw, times):
                if as_json:
                    print_json(reader.document(at, record))
                else:
                    if found:
                        click.echo()
                    print_fields(reader.fields(at, record))
                found = True
            if found:
                return
    when = "" if all(time is None for time in times.values()) else " at the given time"
    raise NotFoundError(f"{printable(key)!r} has no value in the store {store!r}{when}")


def _rows(
    reader: Reader, key: bytes, times: dict[str, Any]
) -> Iterable[tuple[bytes | Windowed[bytes], Any]]:
    """Return the rows of the key at the given times, or no rows if there is no value."""
    shape, store = reader.spec.shape, reader.store
    if shape == "window":
        start = times["window_start"]
        return () if start < 0 else reader.in_time(key, key, start, start)
    at: bytes | Windowed[bytes] = key
    if shape == "session":
        try:
            at = Windowed(key, times["session_start"], times["session_end"])
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--session-start") from error
        record = store.fetch_session(key, at.start, at.end)
    elif times["as_of"] is not None:
        record = store.get(key, times["as_of"])
    else:
        record = store.get(key)
    return () if record is None else ((at, record),)


def _check_times(reader: Reader, times: dict[str, Any]) -> None:
    """Check that the given times are exactly the times that identify a value of the store.

    Raises
    ------
    SpecError
        A given time does not apply to this shape of store, or a required time is missing.
    """
    spec = reader.spec
    kind = f"the store {spec.name!r} is a {in_words(spec.shape)} store"
    for name, time in times.items():
        if time is not None and name not in _TIMES[spec.shape]:
            raise SpecError(f"{kind}, so --{in_words(name)} does not apply; leave it out")
    missing = [f"--{in_words(name)}" for name in _TIMES[spec.shape] if times[name] is None]
    if missing and spec.shape != "versioned":
        raise SpecError(
            f"{kind}, so the command also needs {' and '.join(missing)} to find a value. List all "
            "values of the key with: kstore history PATH STORE KEY"
        )

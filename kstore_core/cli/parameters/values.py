"""The parameter types for durations, times, directories and keys on the command line."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from kstore_core.errors import SpecError
from kstore_core.serdes import BuiltInSerde, by_name, value_of_text
from kstore_core.types import to_millis

__all__ = [
    "DIRECTORY",
    "DURATION",
    "NEW_DIRECTORY",
    "SERDE",
    "TIME",
    "check_order",
    "key_bytes",
]

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class _Duration(click.ParamType[int]):
    """The parameter type of a duration: a number and a unit, which is milliseconds by default."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+)(ms|s|m|h|d|)", str(value).strip())
        if match is None:
            self.fail(f"{value!r} is not a duration; write 500ms, 60s, 5m, 12h or 30d", param, ctx)
        return int(match[1]) * _UNITS[match[2] or "ms"]


class _Time(click.ParamType[int]):
    """The parameter type of a time: ms since the epoch, or ISO 8601 with an offset from UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip()
        if re.fullmatch(r"-?\d+", text):
            try:
                return to_millis(int(text))
            except ValueError as error:
                self.fail(str(error), param, ctx)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f"{value!r} is not a time; write milliseconds since the epoch, or ISO 8601 such as "
                "2015-01-15T16:00+01:00",
                param,
                ctx,
            )
        if moment.tzinfo is None:
            self.fail(
                f"{value!r} has no offset from UTC, so its instant is unknown; add Z or +01:00",
                param,
                ctx,
            )
        return to_millis(moment)


class _SerdeName(click.ParamType[str]):
    """The parameter type of the name of a built-in serde."""

    name = "serde"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return by_name(str(value)).name
        except SpecError as error:
            self.fail(str(error), param, ctx)


class _NewDirectory(click.Path):
    """The parameter type of a directory that exists or will be made.

    An empty name is refused, because it would mean the current directory.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail(
                "the name of the directory is empty; for the current directory, write .", param, ctx
            )
        return super().convert(value, param, ctx)


SERDE = _SerdeName()
DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)
DURATION = _Duration()
TIME = _Time()
NEW_DIRECTORY = _NewDirectory(file_okay=False, path_type=Path)


def check_order(earliest: int | None, latest: int | None) -> None:
    """Check that the first time is not after the last time.

    Raises
    ------
    click.BadParameter
        The first time is after the last time.
    """
    if earliest is not None and latest is not None and earliest > latest:
        raise click.BadParameter(f"--from {earliest} lies after --to {latest}", param_hint="--from")


def key_bytes(text: str, serde: BuiltInSerde[Any], *, is_hex: bool) -> bytes:
    """Convert a key from the command line to the bytes that the store contains.

    Raises
    ------
    click.BadParameter
        The text is not hex, or the store's key serde does not accept it.
    """
    try:
        if is_hex:
            return bytes.fromhex(text.removeprefix("0x"))
        if serde.name == "bytes":
            return text.encode()
        return serde.serialize(value_of_text(serde, text))
    except ValueError as error:
        wanted = "hex" if is_hex else f"a key of the serde {serde.name}"
        remedy = "" if is_hex else ". Correct the key, or pass its bytes with --key-hex"
        raise click.BadParameter(
            f"{text!r} is not {wanted}: {error}{remedy}", param_hint="KEY"
        ) from error

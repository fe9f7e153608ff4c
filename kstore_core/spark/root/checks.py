"""The checks of a manifest's fields. They run before a read or a vacuum uses the fields.

Readers open the files that a manifest names, and a vacuum removes all other files. So these checks
must refuse a path outside of the root, a missing shard, and a null engine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from kstore_core.checks import check_layout
from kstore_core.errors import FormatDowngradeError, InconsistentStateError, SpecError
from kstore_core.spec import StoredSpec

__all__ = ["check_manifest"]

_Check = Callable[[Any], bool]
_MAX = 2**63 - 1
_MODES = ("append", "overwrite", "rescale")


def _integer(least: int) -> _Check:
    return lambda value: type(value) is int and least <= value <= _MAX


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _inside(value: Any) -> bool:
    """Return True if ``value`` is a normalised relative path that does not leave its directory."""
    if not _text(value) or "\\" in value or "\0" in value:
        return False
    path = PurePosixPath(value)
    return not path.is_absolute() and ".." not in path.parts and str(path) == value != "."


_MANIFEST: dict[str, tuple[_Check, str]] = {
    "version": (_integer(1), "an int of 1 or more"),
    "created_ms": (_integer(0), "an int of ms, not negative"),
    "job": (lambda value: _inside(value) and "/" not in value, "the name of a job"),
    "mode": (lambda value: value in _MODES, "'append', 'overwrite' or 'rescale'"),
    "engine": (_text, "the name of an engine"),
    "partitions": (_integer(1), "an int of 1 or more"),
    "spec": (lambda value: isinstance(value, dict), "a store's description"),
    "shards": (lambda value: isinstance(value, list), "a list"),
}
_SHARD: dict[str, tuple[_Check, str]] = {
    "shard": (_integer(0), "an int from 0 on"),
    "path": (lambda value: value is None or _inside(value), "a path inside the root, or null"),
    "files": (lambda value: isinstance(value, list), "a list"),
    "rows": (_integer(0), "an int of 0 or more"),
    "records": (_integer(0), "an int of 0 or more"),
    "late": (_integer(0), "an int of 0 or more"),
    "replayed": (_integer(0), "an int of 0 or more"),
    "stream_time": (_integer(-1), "an int of -1 or more"),
    "offsets": (lambda value: isinstance(value, list), "a list"),
}
_FILE: dict[str, tuple[_Check, str]] = {
    "path": (_inside, "a path inside the shard"),
    "bytes": (_integer(0), "an int of 0 or more"),
    "sha256": (
        lambda value: isinstance(value, str) and bool(re.fullmatch("[0-9a-f]{64}", value)),
        "64 hexadecimal digits",
    ),
}
_OFFSET: dict[str, tuple[_Check, str]] = {
    "topic": (lambda value: isinstance(value, str), "a str"),
    "partition": (_integer(0), "an int from 0 on"),
    "offset": (_integer(-1), "an int of -1 or more"),
}
_AHEAD: dict[str, tuple[_Check, str]] = {
    **_OFFSET,
    "modulus": (_integer(1), "an int of 1 or more"),
    "residue": (_integer(0), "an int from 0 on"),
}


def check_manifest(
    document: Any, where: str, *, newest_layout: int, version: int | None = None
) -> None:
    """Check that parsed JSON is a manifest.

    Raise an InconsistentStateError if the JSON is not a manifest. The error names ``where`` and the
    wrong field. Raise a StateError if the layout of the manifest is newer than ``newest_layout``.
    """
    refuse = _Refusal(where)
    if not isinstance(document, dict):
        raise refuse("", document, "an object")
    layout = document.get("format")
    if type(layout) is not int or layout < 1:
        raise refuse("format", layout, "an int of 1 or more")
    check_layout(layout, newest_layout, where)
    refuse.fields(document, _MANIFEST, "")
    if version is not None and document["version"] != version:
        raise refuse("version", document["version"], f"{version} as in the file's name")
    _check_spec(document["spec"], where)
    numbers = []
    for place, shard in enumerate(document["shards"]):
        _check_shard(refuse, shard, f"shards[{place}]")
        numbers.append(shard["shard"])
    wanted = document["partitions"]
    if len(numbers) != wanted or numbers != list(range(wanted)):
        raise refuse("shards", numbers, f"the shards 0 to {wanted - 1} in order, each once")


class _Refusal:
    """A factory of the errors for wrong fields of the manifest ``where``."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __call__(self, field: str, value: Any, wanted: str) -> InconsistentStateError:
        what = f"its field {field}" if field else "its content"
        return InconsistentStateError(
            f"{self.where} is not a valid manifest: {what} is {value!r:.200}, but must be "
            f"{wanted}. To read another version, pass version="
        )

    def fields(self, document: Any, checks: dict[str, tuple[_Check, str]], prefix: str) -> None:
        if not isinstance(document, dict):
            raise self(prefix.rstrip("."), document, "an object")
        for name, (check, wanted) in checks.items():
            if name not in document:
                raise InconsistentStateError(
                    f"{self.where} is not a valid manifest: its field {prefix}{name} is missing. "
                    "To read another version, pass version="
                )
            if not check(document[name]):
                raise self(prefix + name, document[name], wanted)


def _check_shard(refuse: _Refusal, shard: Any, at: str) -> None:
    refuse.fields(shard, _SHARD, f"{at}.")
    for place, file in enumerate(shard["files"]):
        refuse.fields(file, _FILE, f"{at}.files[{place}].")
        elsewhere = file.get("at")
        if elsewhere is not None and not _inside(elsewhere):
            raise refuse(f"{at}.files[{place}].at", elsewhere, "a path inside the root")
    for place, offset in enumerate(shard["offsets"]):
        refuse.fields(offset, _OFFSET, f"{at}.offsets[{place}].")
    ahead = shard.get("ahead", [])
    if not isinstance(ahead, list):
        raise refuse(f"{at}.ahead", ahead, "a list")
    for place, entry in enumerate(ahead):
        refuse.fields(entry, _AHEAD, f"{at}.ahead[{place}].")
    names = [file["path"] for file in shard["files"]]
    if len({*names}) != len(names):
        raise refuse(f"{at}.files", sorted(names), "files with distinct paths")
    if (shard["path"] is None) != (not names):
        wanted = "null, because there are no files" if not names else "a path inside the root"
        raise refuse(f"{at}.path", shard["path"], wanted)


def _check_spec(spec: dict[str, Any], where: str) -> None:
    try:
        StoredSpec.parse(json.dumps(spec).encode())
    except FormatDowngradeError as error:
        raise FormatDowngradeError(f"{where}: {error}") from error
    except SpecError as error:
        raise InconsistentStateError(
            f"{where} is not a valid manifest: spec: {error}. To read another version, "
            "pass version="
        ) from error

"""The choice of the storage for the path or the address of a root."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from kstore_core.errors import SpecError, UnsupportedError
from kstore_core.spark.root.storage.base import Storage

__all__ = ["is_relative", "local_path", "storage_at"]

_FILE = re.compile(r"(?is)file:(?://(?:localhost)?(?=/|$))?(?!//)(.*)")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


def storage_at(
    where: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> Storage:
    """Return the storage at a local path, at a ``file:`` address, or at an ``s3:`` address.

    Raise an UnsupportedError if the address has another scheme. Raise a SpecError if an option in
    ``storage_options`` is unknown, or if there are options for a local path. Raise a ValueError if
    the path is empty.
    """
    text = os.fspath(where)
    if not text:
        raise ValueError("the root of the store is an empty string; pass a path or an address")
    if "\0" in text:
        raise ValueError(f"the root {text!r} contains a NUL character, which no path can contain")
    scheme = _scheme(text)
    if scheme in ("s3", "s3a"):
        from kstore_core.spark.root.storage.objects import ObjectStore

        return ObjectStore.at(text, storage_options or {})
    path = local_path(text)
    if path is None:
        raise UnsupportedError(_unsupported(text, scheme))
    if storage_options:
        raise SpecError(
            f"the storage options {sorted(storage_options)} are for s3:// addresses, but {text!r} "
            "is a directory of this machine; leave the options out"
        )
    from kstore_core.spark.root.storage.local import LocalFiles

    return LocalFiles(Path(path).absolute())


def is_relative(where: str | os.PathLike[str]) -> bool:
    """Return True if ``where`` is a relative local path."""
    path = local_path(os.fspath(where))
    return path is not None and not Path(path).is_absolute()


def local_path(text: str) -> str | None:
    """Return the local path that a path or a ``file:`` address names, or None for other addresses.

    In a ``file:`` address, ``#`` and ``?`` are parts of the path.
    """
    if not _scheme(text):
        return text
    match = _FILE.fullmatch(text)
    return unquote(match[1]) if match else None


def _scheme(text: str) -> str:
    """Return the scheme of an address in lower case, or an empty string for a path."""
    match = _SCHEME.match(text)
    return match[1].lower() if match else ""


def _unsupported(text: str, scheme: str) -> str:
    known = "a path, file: or s3:"
    if scheme == "file":
        return (
            f"{text!r} names a directory of another machine; mount the directory on every machine, "
            "and pass its path"
        )
    if scheme in ("hdfs", "webhdfs", "webdav", "dav", "davs"):
        return (
            f"{text!r}: {scheme}: is not supported, because it cannot refuse to overwrite a file, "
            "which kstore needs to publish a version. Write the store to "
            f"{known} (HDFS can be mounted over NFS or FUSE)"
        )
    if scheme in ("gs", "gcs", "abfs", "abfss", "az", "wasb", "wasbs"):
        return (
            f"{text!r}: {scheme}: is not supported. Write the store to {known}. Google Cloud "
            "Storage has an S3 API, which you select by storage_options={'endpoint_url': ...}"
        )
    return f"{text!r}: {scheme}: is not supported; write the store to {known}"

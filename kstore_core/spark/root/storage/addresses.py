"""The storage at a path or an address of a root."""

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
    """Return the storage at a local path, a ``file:`` or an ``s3:`` address.

    An UnsupportedError for another scheme; a SpecError for unknown ``storage_options``; a
    ValueError for an empty path.
    """
    text = os.fspath(where)
    if not text:
        raise ValueError("the root of a store must be a path, not an empty string")
    if "\0" in text:
        raise ValueError(f"the root {text!r} contains a NUL, which no path can contain")
    scheme = _scheme(text)
    if scheme in ("s3", "s3a"):
        from kstore_core.spark.root.storage.objects import ObjectStore

        return ObjectStore.at(text, storage_options or {})
    path = local_path(text)
    if path is None:
        raise UnsupportedError(_unsupported(text, scheme))
    if storage_options:
        raise SpecError(
            f"storage_options={sorted(storage_options)} are for s3:// addresses, and {text!r} is a "
            "directory of this machine; leave them out"
        )
    from kstore_core.spark.root.storage.local import LocalFiles

    return LocalFiles(Path(path).absolute())


def is_relative(where: str | os.PathLike[str]) -> bool:
    """Return True for a path that depends on the working directory."""
    path = local_path(os.fspath(where))
    return path is not None and not Path(path).is_absolute()


def local_path(text: str) -> str | None:
    """Return the path in a path or a ``file:`` address of this machine, else None.

    ``#`` and ``?`` are parts of the path.
    """
    if not _scheme(text):
        return text
    match = _FILE.fullmatch(text)
    return unquote(match[1]) if match else None


def _scheme(text: str) -> str:
    """Return the scheme of an address; empty for a path."""
    match = _SCHEME.match(text)
    return match[1].lower() if match else ""


def _unsupported(text: str, scheme: str) -> str:
    known = "a path, file: or s3:"
    if scheme == "file":
        return f"{text!r} names another machine; mount its directory, and pass the path"
    if scheme in ("hdfs", "webhdfs", "webdav", "dav", "davs"):
        return (
            f"{text!r}: {scheme} has no create-only write, which the publication of a version "
            f"needs. Write the store to {known} (HDFS can be mounted over NFS or FUSE)"
        )
    if scheme in ("gs", "gcs", "abfs", "abfss", "az", "wasb", "wasbs"):
        return (
            f"{text!r}: {scheme}: is not supported. Write the store to {known} (Google Cloud "
            "Storage supports the S3 API: storage_options={'endpoint_url': ...})"
        )
    return f"{text!r}: {scheme}: is not supported; write the store to {known}"

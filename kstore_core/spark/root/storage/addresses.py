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
from kstore_core.spark.root.storage.services import SERVICES

__all__ = ["is_relative", "local_path", "storage_at"]

_FILE = re.compile(r"(?is)file:(?://(?:localhost)?(?=/|$))?(?!//)(.*)")
_DBFS = re.compile(r"(?is)dbfs:(/(?!/).*)")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


def storage_at(
    where: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> Storage:
    """Return the storage at a local path, or at the address of a directory or an object store.

    Raise an UnsupportedError if kstore does not support the scheme of the address, or if the
    address is of ``dbfs:`` and this machine has no such mount. Raise a SpecError if an option in
    ``storage_options`` is unknown, or if there are options for a local path. Raise a ValueError if
    the path is empty or contains a NUL character.
    """
    text = os.fspath(where)
    if not text:
        raise ValueError("the root of the store is an empty string; pass a path or an address")
    if "\0" in text:
        raise ValueError(f"the root {text!r} contains a NUL character, which no path can contain")
    scheme = _scheme(text)
    if scheme in SERVICES:
        from kstore_core.spark.root.storage.objects import ObjectStore

        return ObjectStore.at(text, storage_options or {})
    if scheme == "hdfs":
        from kstore_core.spark.root.storage.hdfs import HdfsFiles

        return HdfsFiles.at(text, storage_options or {})
    path = local_path(text)
    if path is None:
        raise UnsupportedError(_unsupported(text, scheme))
    if storage_options:
        raise SpecError(
            f"the storage options {sorted(storage_options)} are for object stores and HDFS, but "
            f"{text!r} is a directory of this machine; leave the options out"
        )
    from kstore_core.spark.root.storage.local import LocalFiles
    from kstore_core.spark.root.storage.volumes import VolumeFiles, is_on_volume

    place = Path(path).absolute()
    if scheme == "dbfs" and not any(mount.is_dir() for mount in place.parents[:-1]):
        raise UnsupportedError(
            f"{text!r} is the directory {place} on Databricks, but this machine has no directory "
            f"{place.parts[0]}{place.parts[1]}. On compute without this mount, pass a path below "
            "/Volumes, or an address of s3:, gs: or abfss:"
        )
    return VolumeFiles(place) if is_on_volume(place) else LocalFiles(place)


def is_relative(where: str | os.PathLike[str]) -> bool:
    """Return True if ``where`` is a relative local path."""
    path = local_path(os.fspath(where))
    return path is not None and not Path(path).is_absolute()


def local_path(text: str) -> str | None:
    """Return the local path that a path or an address names, or None for other addresses.

    In a ``file:`` address, ``#`` and ``?`` are parts of the path. ``dbfs:/x`` is the directory
    ``/dbfs/x`` on Databricks, and ``dbfs:/Volumes/x`` is ``/Volumes/x``.
    """
    if not _scheme(text):
        return text
    mounted = _DBFS.fullmatch(text)
    if mounted:
        return mounted[1] if mounted[1].startswith("/Volumes/") else f"/dbfs{mounted[1]}"
    match = _FILE.fullmatch(text)
    return unquote(match[1]) if match else None


def _scheme(text: str) -> str:
    """Return the scheme of an address in lower case, or an empty string for a path."""
    match = _SCHEME.match(text)
    return match[1].lower() if match else ""


def _unsupported(text: str, scheme: str) -> str:
    known = "a path, or to an address of file:, hdfs:, s3:, gs:, abfss: or az:"
    if scheme == "file":
        return (
            f"{text!r} names a directory of another machine; mount the directory on every machine, "
            "and pass its path"
        )
    if scheme in ("webhdfs", "swebhdfs", "httpfs", "webdav", "dav", "davs"):
        instead = (
            "Pass hdfs://namenode:port/path, which needs no Java"
            if "dfs" in scheme or scheme == "httpfs"
            else f"Mount the directory, and pass its path, or write the store to {known}"
        )
        return (
            f"{text!r}: {scheme}: is not supported, because kstore has no client for it. {instead}"
        )
    if scheme in ("wasb", "wasbs", "adl"):
        return (
            f"{text!r}: {scheme}: is not supported. Azure's address of the same container is "
            "abfss://container@account.dfs.core.windows.net/path; pass that address"
        )
    return f"{text!r}: {scheme}: is not supported; write the store to {known}"

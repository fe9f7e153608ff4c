"""Roots on S3 and compatible object stores, by the library s3fs.

An object is written completely or not at all, and is durable as soon as it is written. A manifest
is put with the condition ``If-None-Match: *``, so the server refuses to overwrite an existing
manifest. Listings are not cached, because another writer may publish a version at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kstore_core.errors import (
    EngineUnavailableError,
    SpecError,
    StateError,
    StorageFullError,
    StorageUnavailableError,
)
from kstore_core.hints import install_module
from kstore_core.spark.root.storage.base import DISK_FULL, Entry

__all__ = ["ObjectStore"]

_AT_ONCE = 8
_PIECE_BYTES = 16 << 20
_TRIES = 5
_NOT_OPTIONS = {"self", "kwargs", "asynchronous", "loop", "session"}
_TEXT = {"endpoint_url", "key", "secret", "token", "username", "password", "profile"}


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """The objects of a bucket under one prefix.

    Attributes
    ----------
    address : str
        ``s3://bucket/prefix``, without a slash at the end.
    options : mapping
        Options of ``s3fs.S3FileSystem``. A repr does not show the options, because they may
        contain secrets.
    """

    address: str
    options: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def at(cls, address: str, options: Mapping[str, Any]) -> ObjectStore:
        """Return the objects at an address such as ``s3://bucket/prefix``.

        Raise an EngineUnavailableError if s3fs is not installed. Raise a SpecError if an option is
        unknown, if the value of an option is not JSON, or if the address contains no bucket.
        """
        unknown = sorted({*options} - _parameters())
        if unknown:
            raise SpecError(
                f"storage_options contains {unknown[0]!r}, which is not an option of "
                f"s3fs.S3FileSystem; the options are: {', '.join(sorted(_parameters()))}"
            )
        bucket, _, prefix = address.partition("://")[2].partition("/")
        if not bucket:
            raise SpecError(f"the address {address!r} has no bucket; pass s3://bucket/prefix")
        parts = [part for part in prefix.split("/") if part]
        return cls(
            "/".join([f"s3://{bucket}", *parts]),
            {name: _value(name, value) for name, value in options.items()},
        )

    @property
    def name(self) -> str:
        return self.address

    @property
    def path(self) -> None:
        return None

    def names(self, directory: str) -> list[str]:
        place = self._place(directory)
        with contextlib.suppress(FileNotFoundError), self._translating_errors():
            found = [entry.rstrip("/") for entry in self._files().ls(place, detail=False)]
            if place in found:
                raise StateError(f"s3://{place} is an object, not a directory; pass another root")
            return sorted(entry.rpartition("/")[2] for entry in found)
        return []

    def files(self, directory: str) -> list[Entry]:
        with contextlib.suppress(FileNotFoundError), self._translating_errors():
            found = self._files().find(self._place(directory), detail=True)
            start = len(self._place("")) + 1
            return [
                Entry(name[start:], info["size"], int(info["LastModified"].timestamp() * 1000))
                for name, info in found.items()
            ]
        return []

    def size(self, name: str) -> int:
        with self._translating_errors():
            return int(self._files().info(self._place(name))["size"])

    def read(self, name: str) -> bytes:
        with self._translating_errors():
            return bytes(self._files().cat_file(self._place(name)))

    def digest(self, name: str) -> tuple[int, str]:
        size, found = self.size(name), hashlib.sha256()
        with self._translating_errors():
            for start in range(0, size, _PIECE_BYTES):
                end = min(start + _PIECE_BYTES, size)
                found.update(self._files().cat_file(self._place(name), start=start, end=end))
        return size, found.hexdigest()

    def put_new(self, name: str, data: bytes) -> None:
        for again in range(_TRIES):
            try:
                with self._translating_errors():
                    self._files().pipe_file(self._place(name), data, mode="create")
                return
            except BlockingIOError:  # The server is processing another put of the same object.
                if again == _TRIES - 1:
                    raise StorageUnavailableError(
                        f"{self.address}/{name} was not written: in each of {_TRIES} tries, "
                        "another writer wrote this object at the same time; run the job again"
                    ) from None
                time.sleep(0.1 * 2**again)

    def upload(self, files: Mapping[str, Path]) -> None:
        def put(entry: tuple[str, Path]) -> None:
            self._files().put_file(str(entry[1]), self._place(entry[0]))

        self._all(put, files.items())

    def reuse(self, old: str, new: str) -> str:
        return old

    def download(self, files: Mapping[str, Path], *, linked: bool = False) -> None:
        def get(entry: tuple[str, Path]) -> None:
            self._files().get_file(self._place(entry[0]), str(entry[1]))

        self._all(get, files.items())

    def settle(self, directory: str) -> None:
        """Do nothing, because every object is durable as soon as it is written."""

    def delete(self, names: Sequence[str]) -> None:
        def remove(name: str) -> None:
            with contextlib.suppress(FileNotFoundError):
                self._files().rm_file(self._place(name))

        self._all(remove, names)

    def delete_tree(self, directory: str) -> None:
        self.delete([entry.name for entry in self.files(directory)])

    def _place(self, name: str) -> str:
        root = self.address.removeprefix("s3://")
        return f"{root}/{name}" if name else root

    def _files(self) -> Any:
        """Return the file system object of s3fs.

        s3fs caches one object per process and set of options, so repeated calls are cheap.
        """
        from s3fs import S3FileSystem

        return S3FileSystem(**self.options, use_listings_cache=False)

    def _all(self, call: Callable[[Any], None], things: Iterable[Any]) -> None:
        with self._translating_errors(), ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(call, things):
                pass

    @contextlib.contextmanager
    def _translating_errors(self) -> Iterator[None]:
        """Translate the errors of s3fs and botocore into those that `Storage` describes."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (OSError, BotoCoreError, ClientError) as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> Exception:
        """Return the error that `Storage` describes for an error of s3fs or botocore."""
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            return StorageFullError(
                f"no space left on this machine for files from {self.address}: {error.strerror}. "
                "Free some space in the directory for temporary files and in the directory "
                "KSTORE_SHARD_CACHE, and run the job again"
            )
        cause = error if hasattr(error, "response") else error.__cause__
        response = getattr(cause, "response", None) or {}
        code = str(response.get("Error", {}).get("Code", ""))
        if code in ("PreconditionFailed", "412"):
            return FileExistsError(str(error))
        if code == "ConditionalRequestConflict":
            return BlockingIOError(str(error))
        bucket = self.address.removeprefix("s3://").partition("/")[0]
        if code == "NoSuchBucket":
            return StateError(
                f"{self.address}: the bucket {bucket!r} does not exist. Create the bucket, or "
                "correct the address"
            )
        if isinstance(error, (FileNotFoundError, FileExistsError)):
            return error
        if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
            return StorageUnavailableError(
                f"{self.address}: access is denied ({type(error).__name__}: {error}). Pass "
                "storage_options={'key': ..., 'secret': ...}, or set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY for the driver and every worker. The key needs the "
                f"permission to list, read, put and delete objects in the bucket {bucket!r}"
            )
        return StorageUnavailableError(
            f"{self.address}: the object store refused or failed a request "
            f"({type(error).__name__}: {error}). Check the network, and endpoint_url in "
            "storage_options; then run the job again"
        )


def _value(name: str, value: Any) -> Any:
    """Return the value of an option. A str is parsed as JSON, unless the option is a text."""
    if not isinstance(value, str) or name in _TEXT:
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise SpecError(
            f"the storage option {name!r} is {value!r}, not JSON such as true, 8 or "
            '{"region_name": "x"}; pass the value as JSON'
        ) from None


def _parameters() -> set[str]:
    try:
        from s3fs import S3FileSystem
    except ImportError as error:
        raise EngineUnavailableError(
            "s3:// addresses need the package s3fs, which is not installed in this Python. Install "
            f"the package: {install_module('s3fs')}"
        ) from error
    signature = inspect.signature(S3FileSystem.__init__).parameters
    # s3fs has no parameter for the profile, and passes it on to the session of botocore.
    return {*signature, "profile"} - _NOT_OPTIONS

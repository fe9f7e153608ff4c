"""Roots on HDFS, by the library hdfs-native, which needs no Java.

A manifest or a commit is written under another name and then renamed. The rename is atomic, and the
name node refuses the rename if the new name exists. So no reader sees an incomplete manifest. Data
files are uploaded under their own names before a manifest or a commit names them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstore_core.errors import (
    EngineUnavailableError,
    KStoreError,
    SpecError,
    StateError,
    StorageFullError,
    StorageUnavailableError,
)
from kstore_core.hints import install_module
from kstore_core.spark.root.storage.base import (
    DISK_FULL,
    Entry,
    no_space_here,
    path_parts,
    scratch_name,
)
from kstore_core.spark.root.storage.forks import check_not_forked
from kstore_core.spark.root.storage.hadoop import ARGUMENTS, check_options
from kstore_core.spark.root.storage.remote import RemoteFiles

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus

__all__ = ["HdfsFiles"]

_AT_ONCE = 8
_PIECE_BYTES = 8 << 20
_DEFAULTS = {"dfs.client.failover.max.attempts": "6"}  # hdfs-native's default of 15 takes minutes
_DENIED = ("AccessControlException", "Permission denied", "SaslException", "GSSAPI", "Kerberos")


@dataclass(frozen=True, slots=True)
class HdfsFiles(RemoteFiles):
    """The files below a directory of HDFS. The directory need not exist yet.

    Attributes
    ----------
    address : str
        The address of the directory, ``hdfs://namenode:port/path``, without a slash at the end.
        An address without a name node is a path of the default file system in ``HADOOP_CONF_DIR``.
    options : mapping
        Settings of Hadoop, and the arguments of ``hdfs_native.Client``.
    """

    @classmethod
    def at(cls, address: str, options: Mapping[str, Any]) -> HdfsFiles:
        """Return the files at an address.

        Raise an EngineUnavailableError if hdfs-native is not installed. Raise a SpecError if an
        option is unknown or is not text, or if the name node is not known.
        """
        check_options(options)
        host, _, path = address.partition("://")[2].partition("/")
        parts = path_parts(address, path)
        made = cls("/".join([f"hdfs://{host}", *parts]), dict(options))
        made._client()
        return made

    def names(self, directory: str, *, after: str = "") -> list[str]:
        place = self._place(directory)
        with contextlib.suppress(FileNotFoundError), self._translating_errors():
            found = list(self._client().list_status(place))
            if [entry.path for entry in found if not entry.isdir] == [place]:
                raise StateError(
                    f"{self.address}/{directory}".rstrip("/")
                    + " is a file, not a directory; pass another root"
                )
            names = sorted(entry.path.rpartition("/")[2] for entry in found)
            return [name for name in names if name > after]
        return []

    def files(self, directory: str) -> list[Entry]:
        start = len(self._place("").rstrip("/")) + 1
        with contextlib.suppress(FileNotFoundError), self._translating_errors():
            return [
                Entry(entry.path[start:], entry.length, entry.modification_time)
                for entry in self._client().list_status(self._place(directory), recursive=True)
                if not entry.isdir
            ]
        return []

    def size(self, name: str) -> int:
        with self._translating_errors():
            return self._status(name).length

    def read(self, name: str) -> bytes:
        return b"".join(self._pieces(name))

    def put_new(self, name: str, data: bytes) -> None:
        """Write a new file; raise a FileExistsError if the file exists.

        The existing file may be from an earlier try of this call, if the answer to that try was
        lost.
        """
        folder, _, last = name.rpartition("/")
        scratch = self._place(f"{folder}/{scratch_name(last)}".lstrip("/"))
        with self._translating_errors():
            try:
                try:
                    self._write(scratch, iter([data]))
                except FileNotFoundError as error:
                    raise self._removed(name, error) from error
                self._rename_new(scratch, name)
            finally:
                with contextlib.suppress(Exception):
                    self._client().delete(scratch)

    def _rename_new(self, scratch: str, name: str) -> None:
        """Rename a written file to ``name``, on the condition that this name is free.

        Raise a FileExistsError if the name exists. The client may repeat a rename whose answer was
        lost, and the second rename then finds no source.
        """
        try:
            self._client().rename(scratch, self._place(name))
        except FileNotFoundError as error:
            try:
                self._status(name)
            except FileNotFoundError:
                raise self._removed(name, error) from error
            raise FileExistsError(f"{self.address}/{name} exists") from None

    def _removed(self, name: str, error: Exception) -> StorageUnavailableError:
        return StorageUnavailableError(
            f"{self.address}/{name} was not written, because another process removed the file "
            f"that this process was writing ({_message(error)}). A vacuum with a short grace_s "
            "does this. Run the job again, and pass a greater grace_s to vacuum"
        )

    def upload(self, files: Mapping[str, Path]) -> None:
        def put(entry: tuple[str, Path]) -> None:
            with entry[1].open("rb") as file:
                pieces = iter(functools.partial(file.read, _PIECE_BYTES), b"")
                self._write(self._place(entry[0]), pieces)

        self._all(put, files.items())

    def settle(self, directory: str) -> None:
        """Do nothing, because an upload ends with an hsync on the data nodes."""

    def delete(self, names: Sequence[str]) -> None:
        def remove(name: str) -> None:
            self._client().delete(self._place(name))

        self._all(remove, names)
        folders = {folder for name in names for folder in _above(name)}
        for folder in sorted(folders, key=lambda folder: folder.count("/"), reverse=True):
            # HDFS refuses to delete a directory that is not empty.
            with contextlib.suppress(OSError, RuntimeError):
                self._client().delete(self._place(folder))

    def delete_tree(self, directory: str) -> None:
        with self._translating_errors():
            self._client().delete(self._place(directory), recursive=True)

    def _place(self, name: str) -> str:
        path = self.address.partition("://")[2].partition("/")[2]
        return "/" + "/".join(part for part in (path, name) if part)

    def _client(self) -> Client:
        check_not_forked(self.address)
        host = self.address.partition("://")[2].partition("/")[0]
        return _client_of(host, tuple(sorted(self.options.items())))

    def _status(self, name: str) -> FileStatus:
        found = self._client().get_file_info(self._place(name))
        if found.isdir:
            raise FileNotFoundError(f"{self.address}/{name} is a directory")
        return found

    def _pieces(self, name: str) -> Iterator[bytes]:
        with self._translating_errors():
            reader = self._client().read(self._place(name))
            if len(reader):  # The stream of an empty file never ends.
                yield from reader.read_range_stream(0, len(reader))

    def _write(self, place: str, pieces: Iterator[bytes]) -> None:
        from hdfs_native import WriteOptions

        writer = self._client().create(place, WriteOptions(create_parent=True))
        for piece in pieces:
            writer.write(piece)
        writer.hsync()
        # After an error, the writer is not closed, because close would repeat all retries and fail
        # again. The name node closes the file when its lease ends.
        writer.close()

    def _all(self, call: Callable[[Any], None], things: Iterable[Any]) -> None:
        with self._translating_errors(), ThreadPoolExecutor(_AT_ONCE) as pool:
            try:
                for _ in pool.map(call, things):
                    pass
            except BaseException:
                # Without a name node, each of the remaining calls would fail after many seconds.
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    @contextlib.contextmanager
    def _translating_errors(self) -> Iterator[None]:
        """Translate the errors of hdfs-native into those that `Storage` describes."""
        try:
            yield
        except (OSError, RuntimeError) as error:
            if isinstance(error, KStoreError):
                raise
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> Exception:
        """Translate an error of hdfs-native to the error that `Storage` promises."""
        text = _message(error)
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            return no_space_here(self.address, error)
        if isinstance(error, (FileNotFoundError, FileExistsError)):
            return type(error)(text)
        if "QuotaExceeded" in text:
            return StorageFullError(
                f"{self.address}: a quota of HDFS is exceeded ({text}). Raise the quota, or remove "
                "old versions with a vacuum, and run the job again; published versions are intact"
            )
        if "ParentNotDirectory" in text:
            return StateError(
                f"{self.address}: the path of the root contains a file ({text}). Remove the file, "
                "or pass another root"
            )
        if isinstance(error, PermissionError) or any(sign in text for sign in _DENIED):
            return StorageUnavailableError(
                f"{self.address}: access is denied ({text}). Set HADOOP_USER_NAME, or run kinit, "
                "for the driver and every worker. The user needs the permission to read and write "
                "the directory"
            )
        return StorageUnavailableError(
            f"{self.address}: HDFS refused or failed a request ({text}). Check the name node and "
            "the data nodes, and the settings in HADOOP_CONF_DIR and storage_options; then run "
            "the job again"
        )


@functools.lru_cache(maxsize=64)
def _client_of(host: str, options: tuple[tuple[str, str], ...]) -> Client:
    """Return the client of a name node. Equal arguments share one client."""
    try:
        from hdfs_native import Client
    except ImportError as error:
        raise EngineUnavailableError(
            "hdfs:// addresses need the package hdfs-native, which is not installed in this "
            f"Python. Install the package: {install_module('hdfs_native')}"
        ) from error
    settings = _DEFAULTS | {name: value for name, value in options if name not in ARGUMENTS}
    arguments: dict[str, Any] = {name: value for name, value in options if name in ARGUMENTS}
    try:
        return Client(f"hdfs://{host}" if host else None, settings, **arguments)
    except (OSError, RuntimeError, ValueError) as error:
        raise SpecError(
            f"the name node of hdfs://{host}/ is not known ({_message(error)}). Pass "
            "hdfs://namenode:port/path, or set HADOOP_CONF_DIR for the driver and every worker"
        ) from error


def _message(error: Exception) -> str:
    """Return the message of an error without the stack trace of the name node."""
    return str(error).replace("\\n", "\n").replace("\\t", "\t").partition("\n\tat ")[0].strip()


def _above(name: str) -> list[str]:
    """Return the directories above a file, relative to the root."""
    parts = name.split("/")[:-1]
    return ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]

"""Roots on object stores, by the library obstore: S3, Google Cloud Storage, and Azure.

An object is written completely or not at all, and is durable as soon as it is written. The request
that writes a manifest is conditional, so the server refuses to overwrite an existing manifest.
Listings are not cached, because another writer may publish a version at any time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstore_core.errors import SpecError, StateError, StorageUnavailableError
from kstore_core.spark.root.storage.base import DISK_FULL, Entry, no_space_here, path_parts
from kstore_core.spark.root.storage.forks import check_not_forked
from kstore_core.spark.root.storage.remote import RemoteFiles
from kstore_core.spark.root.storage.services import (
    SERVICES,
    Service,
    checked_options,
    client_of,
    first_line,
)

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

__all__ = ["ObjectStore"]

# The limits keep the data of all requests together below 256 MiB.
_SMALL_BYTES = 2 << 20
_SMALL_AT_ONCE = 64
_LARGE_AT_ONCE = 6
_PIECE_BYTES = 5 << 20  # the size of the pieces in which a larger file is sent
_PIECES_AT_ONCE = 4
_READ_BYTES = 1 << 20
_TRIES = 5
_NO_CONTAINER = ("NoSuchBucket", "ContainerNotFound", "bucket does not exist")
_DENIED = (
    *("status code: 401", "status code: 403"),
    # Without credentials, the client asks these metadata services of its machine, which may not
    # exist.
    *("/latest/api/token", "/latest/meta-data/", "metadata.google.internal", "/metadata/identity/"),
)


@dataclass(frozen=True, slots=True)
class ObjectStore(RemoteFiles):
    """The objects of a bucket or container under one prefix.

    Attributes
    ----------
    address : str
        The address of the prefix, such as ``s3://bucket/prefix``, without a slash at the end.
    options : mapping
        Options of obstore. A repr does not show the options, because they may contain secrets.
    """

    @classmethod
    def at(cls, address: str, options: Mapping[str, Any]) -> ObjectStore:
        """Return the objects at an address such as ``s3://bucket/prefix``.

        Raise an EngineUnavailableError if obstore is not installed. Raise a SpecError if an option
        is unknown or not valid, or if the address contains no bucket or container.
        """
        scheme, _, rest = address.partition("://")
        service = SERVICES[scheme.lower()]
        container, _, prefix = rest.partition("/")
        if not container:
            raise SpecError(
                f"the address {address!r} has no {service.container}; pass {service.example}"
            )
        scheme = "az" if scheme.lower() == "az" else service.scheme
        parts = path_parts(address, prefix)
        made = cls("/".join([f"{scheme}://{container}", *parts]), checked_options(service, options))
        made._client()
        return made

    @property
    def _service(self) -> Service:
        return SERVICES[self.address.partition("://")[0]]

    @property
    def _container(self) -> str:
        return self.address.partition("://")[2].partition("/")[0]

    def names(self, directory: str, *, after: str = "") -> list[str]:
        import obstore

        place = self._place(directory)
        if after:  # The server skips the other objects, of which there may be many.
            with self._translating_errors():
                entries = obstore.list(self._client(), place, offset=f"{place}/{after}").collect()
            below = (entry["path"].removeprefix(f"{place}/") for entry in entries)
            return sorted({name.partition("/")[0] for name in below} - {after})
        with self._translating_errors():
            found = obstore.list_with_delimiter(self._client(), place or None)
        start = len(place) + 1 if place else 0
        objects = [entry["path"] for entry in found["objects"]]
        names = sorted(name[start:].rstrip("/") for name in [*found["common_prefixes"], *objects])
        if place and not names:
            with contextlib.suppress(FileNotFoundError):
                self.size(directory)
                raise StateError(
                    f"{self.address}/{directory}".rstrip("/")
                    + " is an object, not a directory; pass another root"
                )
        return names

    def files(self, directory: str) -> list[Entry]:
        import obstore

        start = len(self._place("")) + 1 if self._place("") else 0
        with self._translating_errors():
            found = obstore.list(self._client(), self._place(directory) or None).collect()
        return [
            Entry(
                entry["path"][start:], entry["size"], int(entry["last_modified"].timestamp() * 1000)
            )
            for entry in found
        ]

    def size(self, name: str) -> int:
        import obstore

        with self._translating_errors():
            return obstore.head(self._client(), self._place(name))["size"]

    def read(self, name: str) -> bytes:
        import obstore

        with self._translating_errors():
            return bytes(obstore.get(self._client(), self._place(name)).bytes())

    def put_new(self, name: str, data: bytes) -> None:
        """Write a new object; raise a FileExistsError if the object exists.

        The existing object may be from an earlier try of this call, if the answer to that try was
        lost.
        """
        import obstore

        for again in range(_TRIES):
            try:
                with self._translating_errors():
                    obstore.put(self._client(), self._place(name), data, mode="create")
                return
            except (FileExistsError, StorageUnavailableError) as error:
                cause = str(error.__cause__)
                lost_connection = "HTTP error" in cause and again == 0
                if not lost_connection and "ConditionalRequestConflict" not in cause:
                    raise
            time.sleep(0.1 * 2**again)
        raise StorageUnavailableError(
            f"{self.address}/{name} was not written in {_TRIES} tries, because another writer "
            "wrote this object at the same time. Run the job again"
        )

    def upload(self, files: Mapping[str, Path]) -> None:
        import obstore

        def put(entry: tuple[str, Path]) -> None:
            obstore.put(
                self._client(),
                self._place(entry[0]),
                entry[1],
                chunk_size=_PIECE_BYTES,
                max_concurrency=_PIECES_AT_ONCE,
            )

        small = {name: path for name, path in files.items() if path.stat().st_size <= _SMALL_BYTES}
        large = [(name, path) for name, path in files.items() if name not in small]
        self._all(put, small.items(), large)

    def settle(self, directory: str) -> None:
        """Do nothing, because every object is durable as soon as it is written."""

    def delete(self, names: Sequence[str]) -> None:
        import obstore

        def remove(some: Sequence[str]) -> None:
            with contextlib.suppress(FileNotFoundError):
                obstore.delete(self._client(), some)

        places = [self._place(name) for name in names]
        try:
            with self._translating_errors():
                obstore.delete(self._client(), places)
        except FileNotFoundError:  # Some services refuse the whole request for a missing object.
            self._all(remove, [[place] for place in places])

    def delete_tree(self, directory: str) -> None:
        self.delete([entry.name for entry in self.files(directory)])

    def _place(self, name: str) -> str:
        prefix = self.address.partition("://")[2].partition("/")[2]
        return "/".join(part for part in (prefix, name) if part)

    def _client(self) -> Client:
        check_not_forked(self.address)
        return client_of(self._service, self._container, tuple(sorted(self.options.items())))

    def _pieces(self, name: str) -> Iterator[Any]:
        import obstore

        return iter(
            obstore.get(self._client(), self._place(name)).stream(min_chunk_size=_READ_BYTES)
        )

    def _all(
        self, call: Callable[[Any], None], things: Iterable[Any], large: Iterable[Any] = ()
    ) -> None:
        """Call a function for all things in threads, and use fewer threads for large things."""
        with (
            self._translating_errors(),
            ThreadPoolExecutor(_SMALL_AT_ONCE) as many,
            ThreadPoolExecutor(_LARGE_AT_ONCE) as few,
        ):
            for done in (many.map(call, things), few.map(call, large)):
                for _ in done:
                    pass

    @contextlib.contextmanager
    def _translating_errors(self) -> Iterator[None]:
        """Translate the errors of obstore into those that `Storage` describes."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (OSError, BaseError, ValueError) as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> Exception:
        """Translate an error of obstore to the error that `Storage` promises."""
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            return no_space_here(self.address, error)
        from obstore.exceptions import AlreadyExistsError

        text = str(error)
        service, container = self._service, f"{self._service.container} {self._container!r}"
        if isinstance(error, AlreadyExistsError):
            return FileExistsError(first_line(error))
        if any(sign in text for sign in _NO_CONTAINER):
            return StateError(
                f"{self.address}: the {container} does not exist. Create the {service.container}, "
                "or correct the address"
            )
        if isinstance(error, (FileNotFoundError, FileExistsError)):
            return error
        if any(sign in text for sign in _DENIED):
            return StorageUnavailableError(
                f"{self.address}: access is denied ({first_line(error)}). Pass "
                f"{service.credentials} for the driver and every worker. The identity needs the "
                f"permission to list, read, put and delete objects in the {container}"
            )
        if "without LOCATION" in text:
            return StorageUnavailableError(
                f"{self.address}: the {container} is in another region. Pass "
                "storage_options={'region': ...}, or set AWS_REGION for the driver and every worker"
            )
        return StorageUnavailableError(
            f"{self.address}: the object store refused or failed a request ({first_line(error)}). "
            "Check the network, and the endpoint in storage_options; then run the job again"
        )

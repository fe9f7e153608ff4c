"""Roots on an object store that Databricks mounts as a directory: ``/Volumes`` and ``/dbfs``.

Such a directory has no hard links, no locks and no fsync, and a file can only be written once from
its begin to its end. So kstore copies the shards to the cache before it opens them, as it does for
other object stores.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kstore_core.errors import UnsupportedError
from kstore_core.spark.live.layout import LIVE
from kstore_core.spark.root.storage.base import Entry
from kstore_core.spark.root.storage.local import LocalFiles, translating_os_errors

__all__ = ["MOUNTS", "VolumeFiles", "is_on_volume"]

MOUNTS = (Path("/Volumes"), Path("/dbfs"))
"""The directories below which Databricks mounts object stores."""


def is_on_volume(path: Path) -> bool:
    """Return True if a path is below a directory in which Databricks mounts an object store."""
    return any(path.is_relative_to(mount) for mount in MOUNTS)


@dataclass(frozen=True, slots=True)
class VolumeFiles:
    """The files below a directory of a volume. The directory need not exist yet.

    Attributes
    ----------
    directory : Path
        The absolute path of the directory. The attribute ``path`` is None, because an engine must
        not open shards in this directory.
    """

    directory: Path

    @property
    def name(self) -> str:
        return str(self.directory)

    @property
    def path(self) -> None:
        return None

    @property
    def _files(self) -> LocalFiles:
        return LocalFiles(self.directory)

    def names(self, directory: str, *, after: str = "") -> list[str]:
        return [name for name in self._files.names(directory) if name > after]

    def files(self, directory: str) -> list[Entry]:
        return self._files.files(directory)

    def size(self, name: str) -> int:
        return self._files.size(name)

    def read(self, name: str) -> bytes:
        return self._files.read(name)

    def digest(self, name: str) -> tuple[int, str]:
        return self._files.digest(name)

    def put_new(self, name: str, data: bytes) -> None:
        """Write a new file; raise a FileExistsError if the file exists.

        Databricks does not say whether two machines can create the same file. So this method reads
        the file afterwards, and raises a FileExistsError if another writer wrote the file. This
        check is not enough for a stream, whose tasks may run twice at the same time.
        """
        self._check_not_live(name)
        target = self.directory / name
        with translating_os_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                try:
                    file.write(data)
                    file.flush()
                except BaseException:
                    with contextlib.suppress(OSError):
                        target.unlink()  # Readers must not see an incomplete file.
                    raise
        if self.read(name) != data:
            raise FileExistsError(f"{target} was written by another writer at the same time")

    def upload(self, files: Mapping[str, Path]) -> None:
        for name, source in files.items():
            self._check_not_live(name)
            target = self.directory / name
            with translating_os_errors(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                with source.open("rb") as reader, target.open("xb") as writer:
                    shutil.copyfileobj(reader, writer, 1 << 20)

    def reuse(self, old: str, new: str) -> str:
        return old

    def download(self, files: Mapping[str, Path], *, linked: bool = False) -> None:
        self._files.download(files)

    def settle(self, directory: str) -> None:
        """Do nothing, because the mount uploads each file when the file is closed."""

    def delete(self, names: Sequence[str]) -> None:
        self._files.delete(names)

    def delete_tree(self, directory: str) -> None:
        self._files.delete_tree(directory)

    def _check_not_live(self, name: str) -> None:
        """Raise an UnsupportedError for a file of a stream."""
        if name.partition("/")[0] == LIVE:
            raise UnsupportedError(
                f"{self.name} is on a volume of Databricks, where a stream cannot exclude a second "
                "writer. For stream_into, map_state and the sink of a stream, pass a root at an "
                "address of s3:, gs: or abfss:, or a directory of a disk that all workers see"
            )

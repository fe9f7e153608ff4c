"""Ways to damage a file of a root, each with the way back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kstore_core.spark.root.root import Root

Spoil = Callable[[Path], None]


def flip(path: Path, at: int = -1) -> None:
    """One bit; the size stays."""
    content = bytearray(path.read_bytes())
    content[at] ^= 0x10
    write_anew(path, bytes(content))


def grow(path: Path) -> None:
    write_anew(path, path.read_bytes() + b"\0")


def cut(path: Path) -> None:
    write_anew(path, path.read_bytes()[:-1])


def empty(path: Path) -> None:
    write_anew(path, b"")


def become_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def become_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def write_anew(path: Path, content: bytes) -> None:
    """Another file of the same name: the one that was there may have names in other attempts."""
    path.unlink()
    path.write_bytes(content)


SPOILS: dict[str, Spoil] = {
    "flipped": flip,
    "grown": grow,
    "cut": cut,
    "emptied": empty,
    "removed": Path.unlink,
    "a directory": become_a_directory,
    "a pipe": become_a_pipe,
}


@contextmanager
def spoiled(path: Path, spoil: Spoil) -> Iterator[None]:
    """Damage a file or directory for a while."""
    root = next(above for above in path.parents if (above / "_kstore").is_dir())
    kept = root.with_name(f"kept-{path.name}")
    path.rename(kept)
    if kept.is_dir():
        shutil.copytree(kept, path)
    else:
        shutil.copyfile(kept, path)
    try:
        spoil(path)
        yield
    finally:
        remove(path)
        kept.rename(path)


def remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path)


def linked_to(target: Path) -> Spoil:
    """Replace what is there by a symbolic link to the same content elsewhere."""

    def spoil(path: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
        path.symlink_to(target)

    return spoil


def places_of(home: Root) -> list[str]:
    """Every file that a manifest of any version names, relative to the root."""
    return sorted({place for version in home.versions() for place in home.load(version).places()})

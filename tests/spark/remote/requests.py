"""The requests of clients to object stores and HDFS: their kinds, and what becomes of each."""

from __future__ import annotations

import contextlib
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import pytest

from kstore_core.spark.root.storage.hdfs import HdfsFiles
from tests.spark.support.object_store import Bucket
from tests.spark.support.web import Proxy

Request = tuple[str, str]
"""The method and the path of a request, or the name and the place of a call."""

Fate = Callable[[str, str], str | int | None]
"""What becomes of a request, as in `Proxy.fate`."""

STORES = [
    "bucket",
    "google_bucket",
    pytest.param("azure_bucket", marks=pytest.mark.slow),
    pytest.param("hdfs_bucket", marks=pytest.mark.slow),
]
"""The fixtures of all storages that are no disks."""

HOWS = ("fails", "loses", "dies", "dies after")
"""What may go wrong with a request, as `FaultyStorage` names it."""

_PLACE = re.compile("commits|changes|checkpoints|attempts|inbox|_kstore")


def drawn(requests: Iterable[Request]) -> list[int]:
    """The numbers of some requests, one of each kind, always the same of the same requests."""
    kinds: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for number, (name, place) in enumerate(requests):
        found = _PLACE.search(place)
        kinds[name, found and found[0], "list" in place].append(number)
    draw = random.Random(17)
    return sorted(draw.choice(numbers) for numbers in kinds.values())


@contextlib.contextmanager
def watched(bucket: Bucket, fate: Fate, delay_s: float = 0) -> Iterator[Bucket]:
    """Give each request to the yielded bucket its fate: by a proxy, or on HDFS at each call."""
    if bucket.scheme == "hdfs":
        with calls_of_hdfs(fate):
            yield bucket
    else:
        with Proxy(delay_s, fate).before(bucket.server) as address:
            yield bucket.moved(address)


@contextlib.contextmanager
def calls_of_hdfs(fate: Fate) -> Iterator[None]:
    """Give each call of this process to HDFS its fate."""
    client_of = HdfsFiles._client

    def client(files: HdfsFiles) -> Any:
        return _Calls(client_of(files), fate)

    with mock.patch.object(HdfsFiles, "_client", client):
        yield


class _Calls:
    """A client of HDFS, or a file that it writes, each of whose calls has a fate."""

    def __init__(self, inner: Any, fate: Fate, file: str = "") -> None:
        self._inner, self._fate, self._file = inner, fate, file

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)

        def called(*given: Any, **named: Any) -> Any:
            place = self._file or given[0]
            fate = self._fate(name, place)
            if isinstance(fate, int):
                raise RuntimeError("not now")
            done = call(*given, **named)
            if fate == "lost":
                raise RuntimeError("the answer was lost")
            return _Calls(done, self._fate, place) if name == "create" else done

        return called

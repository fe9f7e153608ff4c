"""Which process gets the tests of a file where several share them."""

from __future__ import annotations

import functools
import re

from xdist.scheduler import LoadFileScheduling

from tests.support.places import ROOT

__all__ = ["FewServers"]

_SESSION = re.compile(r'spark: SparkSession|usefixtures\("spark"\)')
_STORAGES = "hdfs_bucket|azure_bucket"
_CLUSTERS = re.compile(f"local_cluster|{_STORAGES}")
_OBJECTS = re.compile(rf"tests\.spark\.remote\.|\bHdfs\b|{_STORAGES}")
_KAFKA_STREAMS = "tests/interop/"


class FewServers(LoadFileScheduling):
    """One process gets all files that use the same server, because each process starts its own.

    A server here is the Spark session, an HDFS, the emulator of Azure, or the JVM with Kafka
    Streams. A Kafka broker ends with its file, so files that use one may go to any process. Files
    that use the session and also start clusters, or use HDFS or Azure, get another process: they
    take as long as all others that use the session.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _scope(super()._split_scope(nodeid))


@functools.cache
def _scope(file: str) -> str:
    text = (ROOT / file).read_text(encoding="utf-8")
    if _SESSION.search(text):
        return "clusters" if _CLUSTERS.search(text) else "sessions"
    if _OBJECTS.search(text):
        return "objects"
    return "Kafka Streams" if file.startswith(_KAFKA_STREAMS) else file

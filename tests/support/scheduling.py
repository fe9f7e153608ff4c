"""Which process gets the tests of a file where several share them."""

from __future__ import annotations

import functools

from xdist.scheduler import LoadFileScheduling

from tests.support.places import ROOT

__all__ = ["FewSessions"]


class FewSessions(LoadFileScheduling):
    """One process gets all files that use the Spark session, because each process starts its own.

    Another one gets those that start a cluster besides, which takes as long as all others.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _scope(super()._split_scope(nodeid))


@functools.cache
def _scope(file: str) -> str:
    text = (ROOT / file).read_text(encoding="utf-8")
    if "spark: SparkSession" not in text:
        return file
    return "clusters" if "local_cluster" in text else "sessions"

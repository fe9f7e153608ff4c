"""What a stream into a root is about to do, after a look at what is there."""

from __future__ import annotations

from kstore_core.errors import SpecError
from kstore_core.spark.live.layout import LiveHome, Stream
from kstore_core.spark.read.read_store import manifest_spec
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.engines import check_shared_engine
from kstore_core.spark.shards.routing import check_partitions
from kstore_core.spark.stream.versions import Versions
from kstore_core.spark.write.job import check_same_store
from kstore_core.spec import StoreSpec

__all__ = ["plan_stream"]


def plan_stream(
    home: Root,
    spec: StoreSpec | None,
    *,
    partitions: int | None,
    engine: str | None,
    partition_by: str,
    checkpoint: str,
    publish_every: int,
    query: str = "",
) -> Versions:
    """The versions that a stream goes on from; nothing is written.

    Parameters
    ----------
    query : str
        The id of the query; empty where it is not known yet.

    Raises
    ------
    SpecError, StateError, UnsupportedError
        As :func:`stream_into`.
    """
    live = LiveHome.of(home.path)
    newest = home.newest()
    if newest is None:
        home.check_unused()
        missing = [n for n, v in (("spec", spec), ("partitions", partitions)) if v is None]
        if missing:
            raise SpecError(
                f"{home} holds no version yet, so nothing says which store it is; pass "
                f"{' and '.join(f'{name}=' for name in missing)}"
            )
    else:
        spec = manifest_spec(newest, spec, str(home))
        partitions = newest.partitions if partitions is None else partitions
        engine = newest.engine if engine is None else engine
    assert spec is not None
    engine = "rocksdb" if engine is None else engine
    partitions = check_partitions(partitions)
    check_shared_engine(engine)
    if newest is not None:
        check_same_store(home, newest, spec, partitions, engine, appending=True)
    stream = Stream(query, checkpoint, spec.name, spec.shape, engine, partitions, partition_by)
    bound = live.stream()
    if bound is not None:
        bound.check(stream, live.path)
    return Versions(home, spec, stream, publish_every, newest)

"""The function that checks the arguments of a stream against its root, and plans its versions."""

from __future__ import annotations

from kstore_core.checks import check_partitions
from kstore_core.errors import SpecError
from kstore_core.spark.live.stream_binding import StreamBinding
from kstore_core.spark.remote.layout import COMPACT_EVERY, layout_of
from kstore_core.spark.root.manifest import manifest_spec
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.engines import check_shared_engine
from kstore_core.spark.stream.versions import Versions
from kstore_core.spark.write.job import check_same_store
from kstore_core.spec import StoreSpec

__all__ = ["plan_stream"]


def plan_stream(
    root: Root,
    spec: StoreSpec | None,
    *,
    partitions: int | None,
    engine: str | None,
    partition_by: str,
    checkpoint: str,
    publish_every: int,
    query: str = "",
    compact_every: int = COMPACT_EVERY,
) -> Versions:
    """Check the arguments of a stream, and return the `Versions` with which the stream begins.

    The function compares the arguments with the newest version of the root and with the stream that
    the root belongs to. The function writes nothing. ``query`` is the id of the query, or empty if
    the id is not known yet. The function raises the errors that :func:`stream_into` lists.
    """
    layout = layout_of(root.storage)
    newest = root.newest()
    if newest is None:
        root.check_unused()
        missing = [n for n, v in (("spec", spec), ("partitions", partitions)) if v is None]
        if missing:
            raise SpecError(
                f"{root} has no version yet, so its store is unknown; pass "
                f"{' and '.join(f'{name}=' for name in missing)}"
            )
    else:
        spec = manifest_spec(newest, spec, str(root))
        partitions = newest.partitions if partitions is None else partitions
        engine = newest.engine if engine is None else engine
    assert spec is not None
    engine = "rocksdb" if engine is None else engine
    partitions = check_partitions(partitions)
    check_shared_engine(engine)
    if newest is not None:
        check_same_store(root, newest, spec, partitions, engine, appending=True)
    stream = StreamBinding(
        query, checkpoint, spec.name, spec.shape, engine, partitions, partition_by
    )
    bound = StreamBinding.of(layout)
    if bound is not None:
        bound.check(stream, layout)
    return Versions(root, spec, stream, publish_every, newest, compact_every)

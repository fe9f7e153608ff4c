"""A driver that is killed in the middle of an epoch whose state is on an object store."""

from __future__ import annotations

import pytest

from tests.spark.map_state.work import expected_totals, kills_of, running_totals
from tests.spark.stream.work import EXECUTOR
from tests.spark.support.local_cluster import Raised, local_cluster
from tests.spark.support.object_store import Bucket

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def test_a_driver_that_is_killed_has_each_epoch_once(
    bucket: Bucket, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Of a local master the executor is the driver's JVM. The machine of each driver is new."""
    scratch = tmp_path_factory.mktemp("k")  # a short name, as sockets need it
    moments = ("written", "committed", "put")
    kills_of(scratch).plan([(moment, EXECUTOR) for moment in moments])
    epochs = [[(f"k{(n + epoch) % 4}", n) for n in range(7)] for epoch in range(4)]
    found = {}
    for left in (2, 1, 0, None):
        home = scratch / f"driver-{left}"
        home.mkdir()
        with local_cluster(home, {"spark.master": "local[2]"}) as cluster:
            where = (str(scratch), epochs, bucket.address(), bucket.options)
            if left is None:
                found = dict(cluster.call(running_totals, *where))
            else:
                with pytest.raises((Raised, AssertionError)):
                    cluster.call(running_totals, *where)
                assert len(kills_of(scratch).left()) == left
    expected = dict(expected_totals(epochs))
    assert found
    assert found == {number: expected[number] for number in found}
    assert 3 in found

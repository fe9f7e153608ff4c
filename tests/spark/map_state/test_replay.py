"""The output of an epoch, which a replay returns again."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kstore_core.errors import StateError
from kstore_core.spark.live.epochs import Epoch
from kstore_core.spark.map_state.replay import decode_output, encode_output


def test_the_output_of_another_epoch_of_the_query_is_refused() -> None:
    rows = pa.RecordBatch.from_pylist([{"n": 1}])
    note = encode_output(Epoch("q", 1), rows, "f")
    assert decode_output(Epoch("q", 1), note, rows.schema, "f", "shard 0").equals(rows)
    with pytest.raises(StateError, match="epoch 1 of the query 'q'"):
        decode_output(Epoch("q", 2), note, rows.schema, "f", "shard 0")

from collections.abc import Iterable
from typing import Literal, TypeAlias

from kstore_core.codec.log.batch.head import BatchHead
from kstore_core.codec.log.columns import RecordColumns
from kstore_core.codec.log.record import LogRecord

_TimestampType: TypeAlias = Literal["create", "log_append"]

def encode_record_batch(
    records: Iterable[LogRecord] | RecordColumns,
    *,
    compression: str = "none",
    timestamp_type: _TimestampType = "create",
    log_append_time: int = -1,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes: ...
def encode_record_columns(
    columns: RecordColumns,
    *,
    batch_bytes: int = 65_536,
    compression: str = "none",
    timestamp_type: _TimestampType = "create",
    log_append_time: int = -1,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes: ...
def encode_compacted_batch(
    columns: RecordColumns, head: BatchHead, *, delete_horizon_ms: int | None = None
) -> bytes: ...

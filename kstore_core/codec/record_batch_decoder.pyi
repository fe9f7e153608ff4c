from typing import Self, final

from typing_extensions import Buffer

from kstore_core.codec.log_record import LogRecord
from kstore_core.codec.record_columns import RecordColumns

@final
class RecordBatches:
    @property
    def stopped_at(self) -> int: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> LogRecord: ...

def decode_record_columns(
    buf: Buffer, *, from_offset: int | None = None, min_offset: int = 0, position: int = 0
) -> RecordColumns: ...
def decode_record_batches(buf: Buffer) -> RecordBatches: ...

from typing import Self, final

from typing_extensions import Buffer

from kstore_core.codec.log.columns import RecordColumns
from kstore_core.codec.log.record import LogRecord

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

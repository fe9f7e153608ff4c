from typing_extensions import Buffer

from kstore_core.codec.log.batch.head import BatchHead

def read_batch_head(
    buf: Buffer, at: int = 0, *, verify: bool = False, position: int = 0
) -> BatchHead | None: ...
def find_batch(buf: Buffer, at: int = 0, *, min_offset: int = 0) -> int | None: ...

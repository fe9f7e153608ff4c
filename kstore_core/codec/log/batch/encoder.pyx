# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Functions that encode record batches of version 2 (docs/changelogs.md, Record batches)."""

from libc.stdint cimport INT32_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t

from kstore_core.codec.primitives.buffers cimport address, new_bytes, put
from kstore_core.codec.primitives.integers cimport as_i32, as_i64
from kstore_core.codec.log.batch.layout cimport (
    BATCH_BYTES, CODEC_MASK, DELETE_HORIZON, LENGTH_END, LOG_APPEND_TIME, SUMMED_BYTES, SUMMED_FROM,
    TRANSACTIONAL, Head, store_frame, store_summed,
)
from kstore_core.codec.log.columns cimport RecordColumns, Slot
from kstore_core.codec.primitives.wire cimport store_varint, varint_size

from kstore_core.codec.log.batch.checksum import crc32c
from kstore_core.codec.log.batch.compression import codec_id, compress
from kstore_core.codec.log.record import LogRecord
from kstore_core.errors import FormatError


# ---------------------------------------------------------------- records

cdef inline int64_t body_size(const Slot *slot, const Head *head) noexcept nogil:
    """Return the size in bytes of a record without its length field."""
    cdef int64_t size = (
        1
        + varint_size(slot.timestamp - head.base_timestamp)
        + varint_size(slot.offset - head.base_offset)
        + varint_size(slot.key_size)
        + varint_size(slot.value_size)
        + (slot.header_size if slot.header_size else 1)
    )
    if slot.key_size > 0:
        size += slot.key_size
    if slot.value_size > 0:
        size += slot.value_size
    return size


cdef inline uint8_t *write_part(uint8_t *here, const uint8_t *data, int32_t size) noexcept nogil:
    here = store_varint(here, size)
    return put(here, data, size) if size > 0 else here


cdef inline uint8_t *write_record(uint8_t *here, const Slot *slot, const Head *head) noexcept nogil:
    here = store_varint(here, body_size(slot, head))
    here[0] = 0
    here = store_varint(here + 1, slot.timestamp - head.base_timestamp)
    here = store_varint(here, slot.offset - head.base_offset)
    here = write_part(here, slot.key, slot.key_size)
    here = write_part(here, slot.value, slot.value_size)
    if slot.header_size:
        return put(here, slot.headers, slot.header_size)
    here[0] = 0
    return here + 1


cdef Py_ssize_t fitting(
    RecordColumns columns, Py_ssize_t begin, Head *head, int64_t most, int64_t *total
) noexcept nogil:
    """Return the index after the last record that fits a batch with the first record `begin`.

    The batch has at most `most` bytes, or one record if that record is longer. Set `total` to the
    size of the records in bytes, and set the maximum timestamp in `head`.
    """
    cdef Py_ssize_t index = begin
    cdef const Slot *slot
    cdef int64_t size
    total[0] = 0
    while index < columns.length:
        slot = &columns.slots[index]
        size = body_size(slot, head)
        size += varint_size(size)
        if slot.offset - head.base_offset > INT32_MAX:
            break
        if index > begin and BATCH_BYTES + total[0] + size > most:
            break
        total[0] += size
        head.max_timestamp = max(head.max_timestamp, slot.timestamp)
        index += 1
    return index


# ---------------------------------------------------------------- batches

cdef class _Options:
    """The fields that are equal in all batches of one call."""

    cdef Head head
    cdef int codec
    cdef int64_t log_append_time
    cdef object delete_horizon_ms

    def __init__(
        self, compression, timestamp_type, log_append_time, leader_epoch, producer_id,
        producer_epoch, base_sequence, transactional, delete_horizon_ms,
    ):
        cdef int32_t epoch = as_i32(producer_epoch, "producer_epoch")
        if timestamp_type not in ("create", "log_append"):
            raise ValueError(
                f"timestamp_type must be 'create' or 'log_append', not {timestamp_type!r}"
            )
        if not -2**15 <= epoch < 2**15:
            raise OverflowError(f"producer_epoch: {epoch} does not fit 16 bits")
        self.codec = codec_id(compression)
        self.head.attributes = <int16_t>self.codec
        self.log_append_time = as_i64(log_append_time, "log_append_time")
        if timestamp_type == "log_append":
            self.head.attributes |= LOG_APPEND_TIME
        if transactional:
            self.head.attributes |= TRANSACTIONAL
        self.delete_horizon_ms = delete_horizon_ms
        if delete_horizon_ms is not None:
            self.head.attributes |= DELETE_HORIZON
        self.head.leader_epoch = as_i32(leader_epoch, "leader_epoch")
        self.head.producer_id = as_i64(producer_id, "producer_id")
        self.head.producer_epoch = <int16_t>epoch
        self.head.base_sequence = as_i32(base_sequence, "base_sequence")


cdef Py_ssize_t encode_one(
    RecordColumns columns, Py_ssize_t begin, int64_t most, _Options options,
    int64_t base_offset, int64_t last_offset, list parts,
) except -1:
    """Append the bytes of one batch to `parts`. Return the index of the first record after it."""
    cdef Head head = options.head
    cdef int64_t total = 0
    cdef Py_ssize_t end, index
    cdef uint8_t *here
    cdef bytes body
    cdef bytes frame
    head.base_offset = base_offset
    head.base_timestamp = -1
    if options.delete_horizon_ms is not None:
        head.base_timestamp = as_i64(options.delete_horizon_ms, "delete_horizon_ms")
    elif begin < columns.length:
        head.base_timestamp = columns.slots[begin].timestamp
    head.max_timestamp = INT64_MIN if begin < columns.length else -1
    # This function keeps the GIL, so no other thread can append records meanwhile.
    end = fitting(columns, begin, &head, most, &total)
    if head.attributes & LOG_APPEND_TIME:
        head.max_timestamp = options.log_append_time
    if BATCH_BYTES + total > INT32_MAX:
        raise FormatError(f"a record batch of {total} bytes exceeds the limit of 2**31 - 1")
    if last_offset < 0:
        last_offset = columns.slots[end - 1].offset
    head.last_delta = <int32_t>(last_offset - base_offset)
    head.count = <int32_t>(end - begin)
    if end == begin:
        head.attributes &= ~CODEC_MASK          # Kafka does not compress an empty batch.
    body = new_bytes(SUMMED_BYTES + total)
    here = store_summed(address(body), &head)
    for index in range(begin, end):
        here = write_record(here, &columns.slots[index], &head)
    if options.codec and end > begin:
        body = body[:SUMMED_BYTES] + compress(body[SUMMED_BYTES:], options.codec)
    head.length = <int32_t>(SUMMED_FROM - LENGTH_END + len(body))
    head.crc = crc32c(body)
    frame = new_bytes(SUMMED_FROM)
    store_frame(address(frame), &head)
    parts += (frame, body)
    if options.head.base_sequence >= 0:         # 0 follows the sequence 2**31 - 1
        options.head.base_sequence = <int32_t>(
            (<int64_t>options.head.base_sequence + head.count) % (<int64_t>INT32_MAX + 1)
        )
    return end


def encode_record_batch(
    records, *, compression="none", timestamp_type="create", log_append_time=-1, leader_epoch=-1,
    producer_id=-1, producer_epoch=-1, base_sequence=-1, transactional=False,
):
    """Encode records as one record batch of version 2.

    Parameters
    ----------
    records : iterable of LogRecord
        The records, at least one. Each offset must be greater than the previous offset.
    compression : {"none", "gzip", "snappy", "lz4", "zstd"}
        The compression of the records.
    timestamp_type : {"create", "log_append"}
        With "create", readers get each record's own timestamp. With "log_append", readers get
        `log_append_time` for every record.
    log_append_time : int, default -1
        The time in milliseconds since the epoch. Not used if `timestamp_type` is "create".
    leader_epoch, producer_id, producer_epoch, base_sequence : int, default -1
        The fields of the batch with these names; -1 means that a field has no value.
    transactional : bool, default False
        True if the batch belongs to a transaction.

    Returns
    -------
    bytes
        The encoded batch.

    Raises
    ------
    ValueError
        If there is no record, if the offsets are not in order, or if two offsets differ by more
        than 2**31 - 1.
    FormatError
        If a key, a value or the headers exceed 2**31 - 1 bytes, or if a header key contains a lone
        surrogate.
    UnsupportedError
        If google-crc32c or the library of the compression is not installed.
    """
    cdef RecordColumns columns = columns_of(records)
    cdef list parts = []
    options = _Options(
        compression, timestamp_type, log_append_time, leader_epoch, producer_id, producer_epoch,
        base_sequence, transactional, None,
    )
    if columns.length == 0:
        raise ValueError("records is empty, but a record batch must contain at least one record")
    end = encode_one(columns, 0, INT32_MAX, options, columns.slots[0].offset, -1, parts)
    if end < columns.length:
        raise ValueError(
            f"record {end} does not fit the batch: the batch would exceed 2**31 - 1 bytes, or its "
            "offsets would differ by more than 2**31 - 1"
        )
    return b"".join(parts)


cdef RecordColumns columns_of(object records):
    cdef RecordColumns columns
    if type(records) is RecordColumns:
        return <RecordColumns>records
    columns = RecordColumns()
    for record in records:
        if type(record) is not LogRecord:
            raise TypeError(f"a record must be a LogRecord, not {type(record).__name__}")
        columns.append(record.offset, record.timestamp, record.key, record.value, record.headers)
    return columns


def encode_record_columns(
    columns, *, batch_bytes=65_536, compression="none", timestamp_type="create",
    log_append_time=-1, leader_epoch=-1, producer_id=-1, producer_epoch=-1, base_sequence=-1,
    transactional=False,
):
    """Encode records as a sequence of record batches.

    Parameters
    ----------
    columns : RecordColumns
        The records.
    batch_bytes : int, default 65536
        The maximum size of a batch in bytes before compression. A batch with a single record may be
        larger.
    compression, timestamp_type, log_append_time, leader_epoch, producer_id, producer_epoch, \
base_sequence, transactional
        The parameters of `encode_record_batch` for every batch. `base_sequence` is the first
        sequence number of the first batch. The sequence numbers continue across the batches.

    Returns
    -------
    bytes
        Consecutive batches; ``b""`` if there are no records.

    Raises
    ------
    FormatError, UnsupportedError
        For the same reasons as in `encode_record_batch`.
    """
    cdef RecordColumns source = <RecordColumns?>columns
    cdef list parts = []
    cdef Py_ssize_t begin = 0
    cdef int64_t most = min(as_i64(batch_bytes, "batch_bytes"), INT32_MAX)
    options = _Options(
        compression, timestamp_type, log_append_time, leader_epoch, producer_id, producer_epoch,
        base_sequence, transactional, None,
    )
    while begin < source.length:
        begin = encode_one(
            source, begin, most, options, source.slots[begin].offset, -1, parts
        )
    return b"".join(parts)


def encode_compacted_batch(columns, head, *, delete_horizon_ms=None):
    """Encode the remaining records of a batch after its compaction, as one batch.

    The result has the offsets, sequence numbers and other fields of the original batch.

    Parameters
    ----------
    columns : RecordColumns
        The remaining records, which may be none.
    head : BatchHead
        The head of the original batch.
    delete_horizon_ms : int, optional
        The time after which the tombstones of the batch may be removed, in milliseconds since the
        epoch. If None, no such time is stored.

    Raises
    ------
    ValueError
        If the offset of a record is not within the offsets of the original batch.
    """
    cdef RecordColumns source = <RecordColumns?>columns
    cdef list parts = []
    options = _Options(
        head.compression, "log_append" if head.log_append_time else "create", head.max_timestamp,
        head.leader_epoch, head.producer_id, head.producer_epoch, head.base_sequence,
        head.transactional, delete_horizon_ms,
    )
    if source.length and not (
        head.base_offset <= source.slots[0].offset
        and source.slots[source.length - 1].offset <= head.last_offset
    ):
        raise ValueError(
            "the offset of a record is outside the offsets of the original batch, "
            f"{head.base_offset} to {head.last_offset}"
        )
    encode_one(source, 0, INT32_MAX, options, head.base_offset, head.last_offset, parts)
    return b"".join(parts)

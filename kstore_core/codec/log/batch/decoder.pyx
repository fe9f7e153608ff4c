# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Functions that decode record batches of version 2 (docs/changelogs.md, Record batches).

An incomplete batch at the end of the input is a torn tail; the decoder stops before it. If the
checksum of a batch is wrong, or its length, version or offsets are impossible, the decoder raises a
`CorruptionError`. If the checksum is right but the records are malformed, the decoder raises a
`FormatError`.
"""

cimport cython
from cpython.bytes cimport PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t

from kstore_core.codec.primitives.buffers cimport View, address, close_view, copy_bytes, open_view
from kstore_core.codec.primitives.faults cimport describe
from kstore_core.codec.log.batch.finding cimport batch_size, checked_body
from kstore_core.codec.log.batch.layout cimport (
    CODEC_MASK, CONTROL, LOG_APPEND_TIME, RECORD_LEAST, SUMMED_BYTES, Head, load_head,
)
from kstore_core.codec.log.columns cimport RecordColumns, Slot
from kstore_core.codec.primitives.wire cimport (
    SOUND, TRAILING_BYTES, TRUNCATED_FIELD, Fault, Reader, open_reader, read_count, read_header,
    read_size, read_unsigned, read_varint, unzigzag,
)

from kstore_core.codec.log.batch.compression import CODECS as _CODECS
from kstore_core.codec.log.batch.compression import decompress
from kstore_core.errors import CorruptionError, FormatError

cdef int64_t LAST_BASE = INT64_MAX - 2**31      # keeps every offset of a batch within 64 bits


# ---------------------------------------------------------------- one batch

cdef int read_batch(
    RecordColumns into, const uint8_t *data, Py_ssize_t at, Py_ssize_t size,
    const Head *head, int64_t from_offset, int64_t position,
) except -1:
    """Add the records of a complete batch to `into`, except those before `from_offset`."""
    cdef bytes records = checked_body(data, at, size, head, position)
    cdef int codec = head.attributes & CODEC_MASK
    cdef Py_ssize_t skipped = SUMMED_BYTES
    cdef Reader reader
    cdef Fault fault
    cdef int32_t index = 0
    if head.attributes & CONTROL:
        return 0
    if codec >= len(_CODECS):
        raise malformed(position + at, head, f"the compression {codec} is unknown")
    if codec:
        skipped = 0
        try:
            records = decompress(records[SUMMED_BYTES:], codec)
        except FormatError as error:
            raise malformed(position + at, head, str(error)) from error
    open_reader(&reader, address(records) + skipped, PyBytes_GET_SIZE(records) - skipped)
    if not 0 <= head.count <= (reader.end - reader.here) // RECORD_LEAST:
        why = f"{reader.end - reader.here} bytes cannot contain {head.count} records"
        raise malformed(position + at, head, why)
    into.make_room(head.count)
    into.sources.append(records)
    with nogil:
        fault = read_records(into, &reader, head, from_offset, &index)
    if fault != SOUND:
        why = describe(fault, reader.number, reader.end - reader.here)
        raise malformed(position + at, head, f"record {index}: {why}")
    if index < head.count:
        raise malformed(position + at, head, f"record {index} has an offset out of order")
    if reader.here != reader.end:
        why = f"{reader.end - reader.here} bytes follow the last record"
        raise malformed(position + at, head, why)
    return 0


cdef object malformed(int64_t at, const Head *head, str why):
    return FormatError(f"record batch at byte {at}, offset {head.base_offset}: {why}", offset=at)


cdef Fault read_records(
    RecordColumns into, Reader *reader, const Head *head, int64_t from_offset, int32_t *index
) noexcept nogil:
    """Check all records, and add the records from `from_offset` on.

    Set `index` to the index of the first malformed record.
    """
    cdef Slot slot
    cdef Reader record
    cdef Fault fault
    cdef Py_ssize_t size = 0
    cdef int64_t timestamp = 0
    cdef int32_t delta = 0
    cdef int32_t previous = -1
    while index[0] < head.count:
        fault = read_size(reader, 0, &size)
        if fault != SOUND:
            return fault
        record = reader[0]
        record.end = record.here + size
        fault = read_record(&record, &slot, &timestamp, &delta)
        if fault != SOUND:
            reader[0] = record
            return fault
        reader.here = record.end
        if delta <= previous or delta > head.last_delta:
            return SOUND
        previous = delta
        index[0] += 1
        slot.offset = head.base_offset + delta
        if head.attributes & LOG_APPEND_TIME:
            slot.timestamp = head.max_timestamp
        else:
            slot.timestamp = head.base_timestamp + timestamp
        if slot.offset >= from_offset:
            into.push(&slot)
    return SOUND


cdef inline Fault read_record(
    Reader *reader, Slot *slot, int64_t *timestamp, int32_t *delta
) noexcept nogil:
    """Read a record whose last byte is the last byte of the reader."""
    cdef uint64_t bits = 0
    cdef Py_ssize_t size = 0
    cdef int32_t count = 0
    cdef int32_t i
    cdef const uint8_t *data = NULL
    cdef Fault fault
    if reader.here == reader.end:
        reader.number = 1
        return TRUNCATED_FIELD
    reader.here += 1                            # Skip the unused attributes of the record.
    fault = read_unsigned(reader, 64, &bits)
    if fault != SOUND:
        return fault
    timestamp[0] = unzigzag(bits)
    fault = read_varint(reader, delta)
    if fault != SOUND:
        return fault
    fault = read_part(reader, &slot.key, &slot.key_size)
    if fault != SOUND:
        return fault
    fault = read_part(reader, &slot.value, &slot.value_size)
    if fault != SOUND:
        return fault
    slot.headers = reader.here
    fault = read_count(reader, &count)
    if fault != SOUND:
        return fault
    for i in range(count):
        fault = read_header(reader, &data, &size, &data, &size)
        if fault != SOUND:
            return fault
    slot.header_size = <int32_t>(reader.here - slot.headers) if count else 0
    if reader.here != reader.end:
        reader.number = reader.end - reader.here
        return TRAILING_BYTES
    return SOUND


cdef inline Fault read_part(
    Reader *reader, const uint8_t **data, int32_t *size
) noexcept nogil:
    cdef Py_ssize_t width = 0
    cdef Fault fault = read_size(reader, -1, &width)
    if fault != SOUND:
        return fault
    data[0] = reader.here
    size[0] = <int32_t>width
    if width > 0:
        reader.here += width
    return SOUND


# ---------------------------------------------------------------- many batches

cdef int read_batches(
    RecordColumns into, const uint8_t *data, Py_ssize_t size, int64_t from_offset, bint one,
    int64_t position,
) except -1:
    """Read the complete batches after byte `into.stop`. If `one`, read only the first of them.

    Batches that contain only records with an offset below `from_offset` are skipped.
    """
    cdef Head head
    cdef Py_ssize_t width
    while True:
        width = batch_size(data, size, into.stop, position)
        if width == 0:
            return 0
        load_head(data + into.stop, &head)
        if head.base_offset < into.end or head.last_delta < 0 or head.base_offset > LAST_BASE:
            raise CorruptionError(
                f"record batch at byte {position + into.stop}: the offsets of the batch are "
                f"{head.base_offset} to {head.base_offset + head.last_delta}, but must be "
                f"{into.end} or greater"
            )
        if head.base_offset + head.last_delta >= from_offset:
            read_batch(into, data, into.stop, width, &head, from_offset, position)
        into.stop += width
        into.end = max(into.end, head.base_offset + head.last_delta + 1)
        if one:
            return 1


def decode_record_columns(buf, *, from_offset=None, min_offset=0, int64_t position=0):
    """Decode all complete record batches of `buf` to columns.

    The result does not contain control records. It contains the records of aborted transactions,
    because a batch does not show whether its transaction was aborted.

    Parameters
    ----------
    buf : bytes-like
        Consecutive batches. An incomplete batch at the end is ignored.
    from_offset : int, optional
        The lowest offset of the records in the result. If None, all records are returned. A batch
        is not checked if all its records have lower offsets.
    min_offset : int, default 0
        The lowest valid offset of a batch: the offset after the last record before `buf`.
    position : int, default 0
        The position of `buf` in a file. Errors count bytes from the start of the file.

    Returns
    -------
    RecordColumns
        The records. ``stopped_at`` is the size in bytes of the complete batches in `buf`.

    Raises
    ------
    CorruptionError
        If the checksum of a batch is wrong, or its length, version or offsets are impossible.
    FormatError
        If the records of a batch are malformed. The attribute ``offset`` of the error is the
        position of the batch.
    UnsupportedError
        If a batch has a format before version 2, or if a library that the batch needs is not
        installed.
    """
    cdef View view
    cdef RecordColumns columns = RecordColumns()
    cdef int64_t first = INT64_MIN if from_offset is None else from_offset
    columns.end = min_offset
    open_view(buf, &view)
    try:
        read_batches(columns, view.data, view.size, first, False, position)
    finally:
        close_view(&view)
    return columns


@cython.final
cdef class RecordBatches:
    """An iterator over the records of batches, which `decode_record_batches` returns."""

    cdef bytes _data
    cdef RecordColumns _batch
    cdef Py_ssize_t _next

    @property
    def stopped_at(self):
        """int: the position after the last complete batch that was read.

        After the iteration, any bytes from this position on are an incomplete batch.
        """
        return self._batch.stop

    def __iter__(self):
        return self

    def __next__(self):
        cdef RecordColumns batch
        while self._next >= self._batch.length:
            batch = RecordColumns()
            batch.stop, batch.end = self._batch.stop, self._batch.end
            if not read_batches(
                batch, address(self._data), PyBytes_GET_SIZE(self._data), INT64_MIN, True, 0
            ):
                raise StopIteration
            self._batch, self._next = batch, 0
        self._next += 1
        return self._batch[self._next - 1]


def decode_record_batches(buf):
    """Return an iterator that decodes record batches one record at a time.

    `decode_record_columns` decodes all of them at once.

    Parameters
    ----------
    buf : bytes-like
        Consecutive batches. An incomplete batch at the end is ignored. If there is one,
        ``stopped_at`` of the iterator is less than the size of `buf` after the iteration.

    Returns
    -------
    iterator of LogRecord
        The records, without control records.

    Raises
    ------
    CorruptionError, FormatError, UnsupportedError
        For the same reasons as in `decode_record_columns`, but during the iteration.
    """
    cdef RecordBatches records = RecordBatches.__new__(RecordBatches)
    cdef View view
    records._batch = RecordColumns()
    if PyBytes_CheckExact(buf):
        records._data = <bytes>buf
        return records
    open_view(buf, &view)
    try:
        records._data = copy_bytes(view.data, view.size)
    finally:
        close_view(&view)
    return records

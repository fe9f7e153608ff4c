# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Functions that find a batch, read its head, and check that it is complete and undamaged."""

from libc.stdint cimport int64_t, uint8_t

from kstore_core.codec.primitives.buffers cimport View, close_view, copy_bytes, open_view
from kstore_core.codec.log.batch.layout cimport (
    BATCH_BYTES, CODEC_MASK, CONTROL, DELETE_HORIZON, LENGTH_END, LOG_APPEND_TIME, MAGIC_AT,
    OLD_LEAST, SUMMED_FROM, TRANSACTIONAL, Head, load_head,
)
from kstore_core.codec.primitives.wire cimport load_i32

from kstore_core.codec.log.batch.head import BatchHead
from kstore_core.codec.log.batch.checksum import crc32c
from kstore_core.codec.log.batch.compression import CODECS as _CODECS
from kstore_core.errors import CorruptionError, UnsupportedError


cdef Py_ssize_t batch_size(
    const uint8_t *data, Py_ssize_t size, Py_ssize_t at, int64_t position
) except -1:
    """Return the size in bytes of the batch at `at`, or 0 if the batch is incomplete.

    `position` is the position of `data` in a file. Error messages add it to `at`.
    """
    cdef Py_ssize_t rest = size - at
    cdef int64_t length
    cdef int magic
    if rest <= MAGIC_AT:
        return 0
    length = load_i32(data + at + 8)
    magic = <signed char>data[at + MAGIC_AT]
    if length >= OLD_LEAST and magic in (0, 1):
        raise UnsupportedError(
            f"record batch at byte {position + at}: message format v{magic}, of Kafka before 0.11, "
            f"is not supported; copy the records to a new topic with a Kafka client that supports v{magic}"
        )
    if length < BATCH_BYTES - LENGTH_END or magic != 2:
        raise CorruptionError(
            f"record batch at byte {position + at}: the length {length} or the format version "
            f"{magic} is not valid"
        )
    return LENGTH_END + length if length <= rest - LENGTH_END else 0


cdef bytes checked_body(
    const uint8_t *data, Py_ssize_t at, Py_ssize_t size, const Head *head, int64_t position
):
    """Verify the checksum of a batch, and return the bytes that the checksum covers."""
    cdef bytes body = copy_bytes(data + at + SUMMED_FROM, size - SUMMED_FROM)
    cdef object computed = crc32c(body)
    if computed != head.crc:
        raise CorruptionError(
            f"record batch at byte {position + at}, offset {head.base_offset}: its checksum in "
            f"the header is {head.crc:08x}, but the checksum of its bytes is {computed:08x}"
        )
    return body


def read_batch_head(buf, Py_ssize_t at=0, *, bint verify=False, int64_t position=0):
    """Read the head of the batch that begins at byte `at`.

    Parameters
    ----------
    buf : bytes-like
        Bytes that contain the batch.
    at : int, default 0
        The position of the batch in `buf`.
    verify : bool, default False
        If True, check the checksum of the batch.
    position : int, default 0
        The position of `buf` in a file. The head and errors count bytes from the start of the file.

    Returns
    -------
    BatchHead or None
        The head, or None if the batch is incomplete.

    Raises
    ------
    CorruptionError
        If the length or version of the batch is impossible, or if its checksum is wrong.
    UnsupportedError
        If the batch has a format before version 2.
    ValueError
        If `at` is outside `buf`.
    """
    cdef View view
    cdef Head head
    cdef Py_ssize_t size
    open_view(buf, &view)
    try:
        if not 0 <= at <= view.size:
            raise ValueError(f"byte {at} is outside the {view.size} bytes given")
        size = batch_size(view.data, view.size, at, position)
        if size == 0:
            return None
        load_head(view.data + at, &head)
        if verify:
            checked_body(view.data, at, size, &head, position)
    finally:
        close_view(&view)
    return described(position + at, size, &head)


cdef object described(int64_t at, Py_ssize_t size, const Head *head):
    cdef int codec = head.attributes & CODEC_MASK
    return BatchHead(
        at,
        size,
        head.base_offset,
        head.base_offset + head.last_delta,
        head.leader_epoch,
        head.max_timestamp,
        _CODECS[codec] if codec < len(_CODECS) else f"number {codec}",
        bool(head.attributes & LOG_APPEND_TIME),
        bool(head.attributes & TRANSACTIONAL),
        bool(head.attributes & CONTROL),
        head.base_timestamp if head.attributes & DELETE_HORIZON else None,
        head.producer_id,
        head.producer_epoch,
        head.base_sequence,
        head.count,
    )


def find_batch(buf, Py_ssize_t at=0, *, min_offset=0):
    """Return the position of the first valid batch from byte `at` on, or None if there is none.

    A valid batch is complete and has the right checksum. If a valid batch follows an invalid batch,
    the log is damaged. If no valid batch follows, the invalid batch is a torn tail, which an
    interrupted write left.

    Parameters
    ----------
    buf : bytes-like
        The bytes to search.
    at : int, default 0
        The position at which the search begins.
    min_offset : int, default 0
        The minimum base offset of the batch.

    Returns
    -------
    int or None
    """
    cdef View view
    cdef Head head
    cdef int64_t least = min_offset
    open_view(buf, &view)
    try:
        for at in range(max(at, 0), view.size - BATCH_BYTES + 1):
            if view.data[at + MAGIC_AT] != 2:
                continue
            load_head(view.data + at, &head)
            if (
                head.base_offset >= least
                and BATCH_BYTES <= LENGTH_END + <int64_t>head.length <= view.size - at
                and crc32c(copy_bytes(
                    view.data + at + SUMMED_FROM, LENGTH_END + head.length - SUMMED_FROM
                )) == head.crc
            ):
                return at
        return None
    finally:
        close_view(&view)

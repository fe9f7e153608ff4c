# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""The class of the headers of a record (KIP-82), which are decoded at the first access."""

cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE

from kstore_core.codec.primitives.buffers cimport address, copy_bytes
from kstore_core.codec.headers.header cimport Header, as_header, count_headers, parse_headers

from collections.abc import Mapping, Sequence

from kstore_core.errors import FormatError, ReadOnlyHeadersError

cdef enum:
    # The greatest number of bytes of other data that Headers may keep in memory.
    SHARED_BYTES = 1024

@cython.final
@cython.freelist(256)
@cython.no_gc           # Its bytes and Header objects cannot form a cycle.
cdef class Headers:
    """The headers of a record: a sequence of `Header` pairs in which keys may repeat.

    Headers that were made from bytes are decoded at the first access. Unchanged headers are encoded
    to the same bytes. Headers that a store returns are read-only; call `copy` to get headers that
    can be changed.

    Parameters
    ----------
    pairs : iterable of (str, bytes-like or None), Headers, or None, optional
        The headers. A mapping is not accepted, because its keys have no order and cannot repeat.
    read_only : bool, default False
        If True, `add` and `remove` raise `ReadOnlyHeadersError`.

    Raises
    ------
    TypeError
        If `pairs` is a mapping, an element is not a pair, a key is not a str, or a value is neither
        bytes-like nor None.

    Notes
    -----
    Headers are equal to other Headers, or to a list or tuple of pairs, if the elements are equal;
    `read_only` is not compared. Headers are not hashable. If the headers were made from malformed
    bytes, the first access raises `FormatError`. Each call of `add` copies all headers, so pass
    many headers to the constructor in one call.

    Examples
    --------
    >>> headers = Headers([("trace-id", b"abc")]).add("trace-id", b"def")
    >>> list(headers) == [("trace-id", b"abc"), ("trace-id", b"def")]
    True
    >>> headers.last("trace-id").value
    b'def'
    """

    def __init__(self, pairs=None, *, bint read_only=False):
        if self._source is not None or self._items is not None:
            raise TypeError("Headers cannot be initialised twice")
        if type(pairs) is Headers:
            take(self, <Headers>pairs)
        else:
            self._items = () if pairs is None else checked_items(pairs)
        self._read_only = read_only

    @property
    def read_only(self):
        """bool: True if the headers cannot be changed. A `copy` of them can be changed."""
        return self._read_only

    def add(self, key, value):
        """Append a header.

        Parameters
        ----------
        key : str
            The key of the header.
        value : bytes-like or None
            The value of the header.

        Returns
        -------
        Headers
            This object.

        Raises
        ------
        TypeError
            If `key` is not a str, or if `value` is neither bytes-like nor None.
        ReadOnlyHeadersError
            If this object is read-only and the types are right.
        """
        header = Header(key, value)
        with cython.critical_section(self):
            self.refuse_if_read_only("add")
            self._items = self.locked_items() + (header,)
            self._source = None
        return self

    def remove(self, key):
        """Remove every header with this key. The remaining headers keep their order.

        Returns
        -------
        Headers
            This object.

        Raises
        ------
        ReadOnlyHeadersError
            If this object is read-only, even if `key` is not a str.
        TypeError
            If `key` is not a str.
        """
        cdef Header header
        with cython.critical_section(self):
            self.refuse_if_read_only("remove")
            checked(key)
            items = self.locked_items()
            others = tuple([header for header in items if header.key != key])
            if len(others) != len(items):
                self._items = others
                self._source = None
        return self

    def last(self, key):
        """Return the last header with this key, or None if there is no such header.

        Raises
        ------
        TypeError
            If `key` is not a str.
        """
        cdef Header header
        checked(key)
        for header in reversed(self.items()):
            if header.key == key:
                return header
        return None

    def value(self, key, default=None):
        """Return the value of the last header with this key, or `default` if no header has the key.

        The value of a header may itself be None.
        """
        header = self.last(key)
        return default if header is None else (<Header>header).read()

    def all(self, key):
        """Return every header with this key, in order.

        Returns
        -------
        tuple of Header
            The headers with this key; empty if there are none.
        """
        cdef Header header
        checked(key)
        return tuple([header for header in self.items() if header.key == key])

    def copy(self):
        """Return a copy that can be changed. Copying does not decode the headers.

        Returns
        -------
        Headers
        """
        cdef Headers other = Headers.__new__(Headers)
        take(other, self)
        return other

    def index(self, pair, Py_ssize_t start=0, stop=None):
        """Return the position of the first header that equals `pair`.

        Raises
        ------
        ValueError
            If no header equals `pair`.
        """
        items = self.items()
        return items.index(pair, start, len(items) if stop is None else stop)

    def count(self, pair):
        """Return the number of headers that equal `pair`."""
        return self.items().count(pair)

    def __len__(self):
        with cython.critical_section(self):
            if self._items is None and self._source is not None:
                return count_headers(address(self._source) + self._start, self._size)
        return len(self.items())

    def __getitem__(self, index):
        return self.items()[index]

    def __iter__(self):
        return iter(self.items())

    def __reversed__(self):
        return reversed(self.items())

    def __contains__(self, pair):
        return pair in self.items()

    def __eq__(self, other):
        if type(other) is Headers:
            return self is other or self.items() == (<Headers>other).items()
        if isinstance(other, (list, tuple)):
            return self.items() == tuple(other)
        return NotImplemented

    def __repr__(self):
        state = ", read_only=True" if self._read_only else ""
        try:
            pairs = ", ".join([f"({header.key!r}, {header.value!r})" for header in self.items()])
        except FormatError as error:
            return f"<Headers of {self._size} malformed bytes: {error}>"
        return f"Headers([{pairs}]{state})"

    def _repr_html_(self):
        from kstore_core.display.reprs import headers_html

        return headers_html(self)

    def __reduce__(self):
        with cython.critical_section(self):
            source = self.locked_source()
            items = self._items if source is None else None
            return _restored, (source, items, self._read_only)

    cdef int refuse_if_read_only(self, str what) except -1:
        if self._read_only:
            raise ReadOnlyHeadersError(
                f"headers.{what}: these headers are read-only, like all headers from a store; "
                "change headers.copy() instead"
            )
        return 0

    cdef tuple items(self):
        """Return the headers as a tuple. Decode them if they are not decoded yet."""
        with cython.critical_section(self):
            return self.locked_items()

    cdef tuple locked_items(self):
        if self._items is None:
            if self._source is None:
                self._items = ()
            else:
                self._items = parse_headers(self._source, self._start, self._size)
        return self._items

    cdef bytes locked_source(self):
        """Return the encoded bytes of these headers, or None if the headers were changed."""
        if self._source is None or (
            self._start == 0 and self._size == PyBytes_GET_SIZE(self._source)
        ):
            return self._source
        return copy_bytes(address(self._source) + self._start, self._size)


Sequence.register(Headers)

cdef Headers NO_HEADERS = Headers(read_only=True)


def _restored(source, items, read_only):
    """Return headers from the parts that `Headers.__reduce__` pickled."""
    cdef Headers headers = Headers.__new__(Headers)
    headers._source = source
    headers._size = 0 if source is None else len(source)
    headers._items = items
    headers._read_only = read_only
    return headers


cdef int checked(object key) except -1:
    if not isinstance(key, str):
        raise TypeError(f"a header key must be a str, not {type(key).__name__}")
    return 0


cdef int take(Headers target, Headers source) except -1:
    """Make `target` share the bytes and the tuple of `source`, which are immutable."""
    with cython.critical_section(source):
        target._source = source._source
        target._start = source._start
        target._size = source._size
        target._items = source._items
    return 0


cdef tuple checked_items(object pairs):
    cdef Py_ssize_t i
    refuse_mapping(pairs)
    return tuple([as_header(pair, i) for i, pair in enumerate(pairs)])


cdef int refuse_mapping(object pairs) except -1:
    if isinstance(pairs, Mapping):
        raise TypeError(
            "headers must not be a mapping, because its keys have no order and cannot repeat; "
            "pass a list of (key, value) pairs, such as list(mapping.items())"
        )
    return 0


cdef Headers as_headers(object headers):
    """Return `headers` if it is a Headers object; otherwise make a Headers object from it."""
    if type(headers) is Headers:
        return <Headers>headers
    return Headers(headers)


cdef Headers lazy_headers(bytes source, Py_ssize_t start, Py_ssize_t size):
    """Return read-only headers from source[start:start + size], decoded at the first access.

    The headers keep a reference to `source`. If `source` is much longer than the headers, the bytes
    of the headers are copied instead, so that `source` can be freed.
    """
    cdef Headers headers
    if size == 0:
        return NO_HEADERS
    headers = Headers.__new__(Headers)
    headers._read_only = True
    headers._size = size
    if PyBytes_GET_SIZE(source) - size <= SHARED_BYTES:
        headers._source = source
        headers._start = start
    else:
        headers._source = copy_bytes(address(source) + start, size)
    return headers

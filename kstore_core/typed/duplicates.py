"""The sequence numbers of duplicates, which are several values for one key and window."""

from __future__ import annotations

from collections.abc import Callable

from kstore_core.codec import windowed_key
from kstore_core.errors import StateError

__all__ = ["DuplicateNumbers"]

MAX_NUMBER = 2**31 - 1
_MAX_KNOWN = 100_000


class DuplicateNumbers:
    """The counter that numbers the duplicates of a store, as in Kafka Streams.

    The counter begins at 0 and is increased before each put. In Kafka Streams the counter begins at
    0 again when a store is opened, so new values overwrite stored values. kstore prevents this: the
    first put to a key and window gets a number after the highest stored number of this key and
    window.

    The counter is not thread-safe. The caller must put the numbered value before it asks for the
    next number.

    Parameters
    ----------
    highest : callable
        A function ``highest(key, start)`` that returns the highest stored sequence number of a key
        and window, or None if they have no value.
    """

    def __init__(self, highest: Callable[[bytes, int], int | None]) -> None:
        self._highest = highest
        self._last = 0
        # Windows whose stored numbers do not exceed the counter. Clearing the set only costs time.
        self._known: set[bytes] = set()

    def next(self, key: bytes, start: int) -> int:
        """Return the number of the next value of ``key`` in the window from ``start`` (ms).

        Raises
        ------
        StateError
            A value of this key and window already has the highest possible number.
        """
        number = self._last + 1
        if number > MAX_NUMBER:
            number = 0
            self._known.clear()
        window = windowed_key(key, start)
        if window not in self._known:
            stored = self._highest(key, start)
            if stored is not None and stored >= number:
                if stored == MAX_NUMBER:
                    raise StateError(
                        f"the window of the key {key!r} that starts at {start} can take no more "
                        "values, because it already has a value with the greatest possible "
                        f"sequence number, {stored}. Nothing was written"
                    )
                number = stored + 1
            if len(self._known) == _MAX_KNOWN:
                self._known.clear()
            self._known.add(window)
        self._last = number
        return number

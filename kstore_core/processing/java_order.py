"""The orders of Java's collections, as far as they are visible in Kafka Streams.

The order of a ``HashSet``, a ``TreeSet`` or a ``PriorityQueue`` is visible in two places. The text
of a topology lists topics, stores and neighbours in such orders. If several records or schedules
have the same time, a ``PriorityQueue`` decides which of them is first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["InsertedTree", "TimeHeap", "hash_order", "text_order"]

T = TypeVar("T")


def text_order(text: str) -> bytes:
    """Return a sort key for a text. It gives the order of ``String.compareTo``."""
    return text.encode("utf-16-be", "surrogatepass")


def hash_order(texts: Iterable[str], *, copied: bool = False) -> list[str]:
    """Return the distinct texts in the order of a ``HashSet`` to which they were added one by one.

    Parameters
    ----------
    copied : bool
        True if the set was made by ``new HashSet<>(collection)``. The hash table of such a set may
        be larger.
    """
    known = list(dict.fromkeys(texts))
    size = 16
    while size < len(known) / 0.75 if not copied else size < int(len(known) / 0.75) + 1:
        size *= 2
    return sorted(known, key=lambda text: _spread(text) & (size - 1))


def _spread(text: str) -> int:
    units = text_order(text)
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + high * 256 + low) & 0xFFFFFFFF
    return code ^ (code >> 16)


class _Branch(Generic[T]):
    __slots__ = ("item", "left", "red", "right", "up")

    def __init__(self, item: T, up: _Branch[T] | None) -> None:
        self.item = item
        self.up = up
        self.left: _Branch[T] | None = None
        self.right: _Branch[T] | None = None
        self.red = True


class InsertedTree(Generic[T]):
    """A ``TreeSet`` whose items may change their order after they were inserted.

    Kafka Streams orders the neighbours of a node by the sizes of their subtrees. These subtrees
    grow while Kafka Streams inserts the neighbours. So the place of a new item depends on the shape
    of the tree.

    Parameters
    ----------
    is_before : callable
        A function that returns True if the first of two distinct items precedes the second.
    """

    def __init__(self, is_before: Callable[[T, T], bool]) -> None:
        self._is_before = is_before
        self._root: _Branch[T] | None = None

    def add(self, item: T) -> None:
        """Insert an item, unless the search for its place finds the item in the tree."""
        up, found = None, self._root
        while found is not None:
            if found.item is item:
                return
            up = found
            found = found.left if self._is_before(item, found.item) else found.right
        branch = _Branch(item, up)
        if up is None:
            self._root = branch
        elif self._is_before(item, up.item):
            up.left = branch
        else:
            up.right = branch
        self._balance(branch)

    def _balance(self, branch: _Branch[T]) -> None:
        while (up := branch.up) is not None and up.red:
            top = up.up
            assert top is not None  # the root is black
            is_left = up is top.left
            uncle = top.right if is_left else top.left
            if uncle is not None and uncle.red:
                up.red = uncle.red = False
                top.red = True
                branch = top
                continue
            if branch is (up.right if is_left else up.left):
                self._rotate(up, to_left=is_left)
                branch, up = up, branch
            up.red, top.red = False, True
            self._rotate(top, to_left=not is_left)
        assert self._root is not None
        self._root.red = False

    def _rotate(self, branch: _Branch[T], *, to_left: bool) -> None:
        near, far = ("left", "right") if to_left else ("right", "left")
        risen: _Branch[T] = getattr(branch, far)
        inner: _Branch[T] | None = getattr(risen, near)
        setattr(branch, far, inner)
        if inner is not None:
            inner.up = branch
        risen.up = branch.up
        if branch.up is None:
            self._root = risen
        elif branch.up.left is branch:
            branch.up.left = risen
        else:
            branch.up.right = risen
        setattr(risen, near, branch)
        branch.up = risen

    def __iter__(self) -> Iterator[T]:
        def inside(branch: _Branch[T] | None) -> Iterator[T]:
            if branch is not None:
                yield from inside(branch.left)
                yield branch.item
                yield from inside(branch.right)

        return inside(self._root)


class TimeHeap(Generic[T]):
    """A ``PriorityQueue`` of items by time. Items of the same time have the same order as in Java.

    The heap of :mod:`heapq` would return items of the same time in another order.

    Parameters
    ----------
    time_of : callable
        A function that returns the time of an item. The time must not change while the item is in
        the heap.
    """

    def __init__(self, time_of: Callable[[T], int]) -> None:
        self._time_of = time_of
        self._items: list[T] = []

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        """Iterate over the items, in no particular order."""
        return iter(self._items)

    def peek(self) -> T | None:
        """Return the first item, or None if the heap is empty."""
        return self._items[0] if self._items else None

    def push(self, item: T) -> None:
        """Add an item."""
        items, time = self._items, self._time_of(item)
        items.append(item)
        at = len(items) - 1
        while at and time < self._time_of(items[(at - 1) // 2]):
            items[at] = items[(at - 1) // 2]
            at = (at - 1) // 2
        items[at] = item

    def pop(self) -> T:
        """Remove and return the first item."""
        items = self._items
        first, last = items[0], items.pop()
        if not items:
            return first
        time, at, size = self._time_of(last), 0, len(items)
        while (child := 2 * at + 1) < size:
            if child + 1 < size and self._time_of(items[child]) > self._time_of(items[child + 1]):
                child += 1
            if time <= self._time_of(items[child]):
                break
            items[at] = items[child]
            at = child
        items[at] = last
        return first

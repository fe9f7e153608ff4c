"""The orders in which Kafka Streams meets things because of the collections of Java that it uses.

The order of a ``HashSet``, a ``TreeSet`` or a ``PriorityQueue`` is visible in two places. The text
of a topology lists topics, stores and neighbours in such orders. And if several records or
schedules have the same time, a ``PriorityQueue`` decides which one is first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["InsertedTree", "TimeHeap", "hash_order", "text_order"]

T = TypeVar("T")


def text_order(text: str) -> bytes:
    """Return the key by which ``String.compareTo`` orders a text."""
    return text.encode("utf-16-be", "surrogatepass")


def hash_order(texts: Iterable[str], *, copied: bool = False) -> list[str]:
    """Return distinct texts in the order of a ``HashSet``, into which they were put in this order.

    Parameters
    ----------
    copied : bool
        True if the set is ``new HashSet<>(collection)``, whose table may be larger.
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

    Kafka Streams orders the neighbours of a node by the sizes of their subtrees, which grow while
    it inserts the neighbours. The place of a new item then depends on the shape of the tree.

    Parameters
    ----------
    is_before : callable
        A function of two distinct items.
    """

    def __init__(self, is_before: Callable[[T, T], bool]) -> None:
        self._is_before = is_before
        self._root: _Branch[T] | None = None

    def add(self, item: T) -> None:
        """Insert an item, unless the search for its place meets the item."""
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
    """A ``PriorityQueue`` of items by time, which returns items of the same time in Java's order.

    The heap of :mod:`heapq` would return them in another order.

    Parameters
    ----------
    time_of : callable
        The time of an item, which must not change while the item is in the heap.
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

"""Java's orders; tests/golden has topologies and times that Kafka Streams put in these orders."""

import random

from kstore_core.processing.java_order import InsertedTree, TimeHeap, hash_order, text_order


def test_a_hash_set_sorts_by_hash_and_grows():
    assert hash_order(["b", "a", "Aa", "BB", "a"]) == ["Aa", "BB", "a", "b"]
    topics = [f"Topic{7 * number}" for number in range(12)]
    sevens = [0, 70, 63, 42, 21, 7, 77]
    start = [f"Topic{number}" for number in (56, 35, 14, 49, 28)]
    assert hash_order(topics) == start + [f"Topic{number}" for number in sevens]
    sevens.insert(1, sevens.pop(5))  # the table of a copy has twice as many places
    assert hash_order(topics, copied=True) == start + [f"Topic{number}" for number in sevens]


def test_texts_are_ordered_by_their_utf_16_units():
    texts = ["\ue000", "\U00010000", "b", "a"]
    assert sorted(texts, key=text_order) == ["a", "b", "\U00010000", "\ue000"]


def test_a_heap_returns_equal_times_as_java_does():
    heap = TimeHeap[tuple[int, str]](lambda item: item[0])
    for item in [(1, "a"), (1, "b"), (1, "c"), (0, "d"), (1, "e")]:
        heap.push(item)
    assert heap.peek() == (0, "d")
    assert [heap.pop()[1] for _ in range(5)] == ["d", "e", "b", "c", "a"]
    assert heap.peek() is None


def test_a_heap_and_a_tree_sort():
    rng = random.Random(7)
    for _ in range(50):
        numbers = [rng.randrange(1000) for _ in range(rng.randrange(1, 60))]
        heap = TimeHeap[int](int)
        tree = InsertedTree[int](int.__lt__)
        for number in numbers:
            heap.push(number)
            tree.add(number)
        assert [heap.pop() for _ in numbers] == sorted(numbers)
        assert list(dict.fromkeys(tree)) == sorted(set(numbers))

"""The numbers of duplicates: Kafka's counter, which never writes over what is stored."""

import pytest

from kstore_core.errors import StateError
from kstore_core.typed import duplicates
from kstore_core.typed.duplicates import MAX_NUMBER, DuplicateNumbers


@pytest.fixture
def stored():
    """The highest stored number by key and start; what was asked for is noted in ``asked``."""
    return {}


@pytest.fixture
def asked():
    return []


@pytest.fixture
def numbers(stored, asked):
    def highest(key, start):
        asked.append((key, start))
        return stored.get((key, start))

    return DuplicateNumbers(highest)


def test_one_counter_for_all_keys_and_windows(numbers):
    assert [numbers.next(key, start) for key, start in [(b"a", 1), (b"b", 1), (b"a", 2)]] == [
        1,
        2,
        3,
    ]


def test_the_first_put_of_a_window_goes_on_after_what_is_stored(numbers, stored):
    stored[b"a", 1] = 7
    stored[b"b", 1] = 3
    assert [numbers.next(b"a", 1), numbers.next(b"b", 1), numbers.next(b"a", 1)] == [8, 9, 10]


def test_a_window_is_looked_at_once(numbers, asked):
    for _ in range(3):
        numbers.next(b"a", 1)
        numbers.next(b"a", 2)
    assert asked == [(b"a", 1), (b"a", 2)]


def test_windows_that_were_forgotten_are_looked_at_again(numbers, asked, stored, monkeypatch):
    monkeypatch.setattr(duplicates, "_MAX_KNOWN", 2)
    for key in (b"a", b"b", b"c", b"a"):
        stored[key, 1] = numbers.next(key, 1)
    assert asked == [(b"a", 1), (b"b", 1), (b"c", 1), (b"a", 1)]
    assert stored == {(b"a", 1): 4, (b"b", 1): 2, (b"c", 1): 3}


def test_behind_the_last_number_comes_the_first_again(numbers, stored):
    stored[b"a", 1] = MAX_NUMBER - 1
    stored[b"b", 1] = 0
    assert numbers.next(b"a", 1) == MAX_NUMBER
    stored[b"a", 1] = MAX_NUMBER
    assert numbers.next(b"b", 1) == 1, "its own are not written over"
    assert numbers.next(b"c", 1) == 2


def test_a_window_without_a_number_left_is_refused(numbers, stored):
    stored[b"a", 1] = MAX_NUMBER
    for _ in range(2):
        with pytest.raises(
            StateError,
            match=r"greatest possible sequence number, 2147483647\. Nothing was written",
        ):
            numbers.next(b"a", 1)
    assert numbers.next(b"b", 1) == 1

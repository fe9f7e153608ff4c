"""Elements are made while the ones before them are used."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kstore_core.restore.ahead import made_ahead


def test_elements_come_in_order() -> None:
    assert list(made_ahead(iter(range(1, 100)))) == list(range(1, 100))
    assert list(made_ahead(iter([]))) == []


def test_the_next_element_is_made_while_one_is_used() -> None:
    is_made = threading.Event()

    def elements() -> Iterator[str]:
        yield "first"
        is_made.set()
        yield "second"

    for element in made_ahead(elements()):
        assert element == "second" or is_made.wait(10)


def test_an_error_comes_where_its_element_would() -> None:
    def elements() -> Iterator[int]:
        yield 1
        raise OSError("no more")

    made = made_ahead(elements())
    assert next(made) == 1
    with pytest.raises(OSError, match="no more"):
        next(made)


def test_no_thread_is_left_when_the_user_stops() -> None:
    before = threading.active_count()
    made = made_ahead(iter(range(1, 100)))
    assert next(made) == 1
    assert threading.active_count() == before + 1
    made.close()
    assert threading.active_count() == before

"""Elements are made while the ones before them are used."""

from __future__ import annotations

import subprocess
import sys
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


def test_without_a_thread_the_caller_makes_the_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", full)
    assert list(made_ahead(iter(range(1, 9)))) == list(range(1, 9))


AFTER_THE_MAIN_THREAD = """
import threading
from kstore_core.restore.ahead import made_ahead

def work():
    main.join()
    print(sum(made_ahead(iter(range(1, 9)))))

main = threading.main_thread()
threading.Thread(target=work).start()
"""


def test_elements_are_made_after_the_main_thread_has_ended() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AFTER_THE_MAIN_THREAD], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["36"]

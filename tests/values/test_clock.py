"""Stream time, segments, and what is too late."""

import signal
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core.clock import segment_id
from kstore_core.stream_clock import START, StreamClock, Turn


@pytest.mark.parametrize(
    ("timestamp", "segment"),
    [
        (0, 0),
        (9, 0),
        (10, 1),
        (-1, 0),
        (-9, 0),
        (-10, -1),
        (-11, -1),
        (2**63 - 1, (2**63 - 1) // 10),
    ],
)
def test_a_segment_is_a_division_toward_zero(timestamp, segment):
    assert segment_id(timestamp, 10) == segment


def test_time_starts_before_any_record():
    clock = StreamClock(100)
    assert clock.observed == START == -1
    assert clock.horizon == -101
    assert clock.accepts(0)
    assert clock.dropped_late == 0


def test_time_goes_forward_only():
    clock = StreamClock(100)
    clock.advance(500)
    clock.advance(400)
    assert clock.observed == 500
    assert clock.horizon == 400


@pytest.mark.parametrize(
    ("retention", "observed", "time", "is_accepted"),
    [
        (100, 500, 501, True),
        (100, 500, 400, True),
        (100, 500, 399, False),
        (100, 500, 0, False),
        (0, 10, 10, True),
        (0, 10, 9, False),
    ],
)
def test_the_horizon_itself_is_in_time_and_what_is_late_is_counted(
    retention, observed, time, is_accepted
):
    clock = StreamClock(retention, observed=observed)
    assert clock.accepts(time) == is_accepted
    assert clock.dropped_late == (not is_accepted)
    assert clock.observed == observed


@settings(deadline=None)
@given(st.integers(0, 100), st.lists(st.integers(0, 1000)))
def test_the_horizon_is_the_greatest_time_less_the_retention(retention, times):
    clock = StreamClock(retention)
    for number, time in enumerate(times):
        horizon = max([START, *times[:number]]) - retention
        assert clock.accepts(time) == (time >= horizon)
        clock.advance(time)
    assert clock.horizon == max([START, *times]) - retention


def test_windows_are_late_by_their_segment():
    clock = StreamClock(100, observed=555)
    assert clock.accepts_segment(455, 50)
    assert clock.accepts_segment(450, 50), "older than the horizon, in its segment"
    assert clock.dropped_late == 0
    assert not clock.accepts_segment(449, 50)
    assert clock.dropped_late == 1


@settings(deadline=None)
@given(st.integers(0, 100), st.integers(1, 50), st.lists(st.integers(0, 1000)))
def test_a_segment_is_live_until_the_horizon_has_left_it(retention, interval, times):
    clock = StreamClock(retention)
    late = 0
    for time in times:
        live = segment_id(time, interval) >= segment_id(clock.observed - retention, interval)
        assert clock.accepts_segment(time, interval) == live
        late += not live
        clock.advance(time)
    assert clock.dropped_late == late


def test_a_clock_that_is_held_goes_on_and_judges_as_before():
    clock = StreamClock(100, 500)
    clock.hold()
    clock.advance(900)
    assert (clock.observed, clock.horizon) == (900, 400)
    assert clock.accepts(400)
    assert not clock.accepts(399)
    clock.rewind(500)
    assert (clock.observed, clock.horizon) == (500, 400)


def test_a_thread_may_take_its_turn_again_and_another_thread_waits():
    turn, seen = Turn(), []

    def other():
        with turn:
            seen.append("other")

    thread = threading.Thread(target=other)
    with turn:
        with turn:
            thread.start()
        thread.join(0.05)
        assert not seen
    thread.join()
    assert seen == ["other"]


def test_only_one_thread_at_a_time_has_its_turn():
    turn, numbers = Turn(), [0]

    def count():
        for _ in range(2000):
            with turn:
                number = numbers[0]
                if number % 50 == 0:
                    threading.Event().wait(0.0001)  # lets other threads run
                numbers[0] = number + 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers == [8000]


def test_a_signal_ends_the_wait_for_a_turn():
    turn, taken, done = Turn(), threading.Event(), threading.Event()

    def hold():
        with turn:
            taken.set()
            done.wait()

    class AlarmError(Exception):
        pass

    def alarm(number, frame):
        raise AlarmError

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait()
    before = signal.signal(signal.SIGALRM, alarm)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(AlarmError), turn:
            pass
    finally:
        signal.signal(signal.SIGALRM, before)
        done.set()
        holder.join()
    with turn:  # free, and not taken by the wait that ended
        pass


def test_a_turn_that_is_not_taken_is_not_released():
    turn = Turn()
    with pytest.raises(RuntimeError, match="does not hold"):
        turn.__exit__(None, None, None)
    with turn:
        thread_errors = []

        def release():
            try:
                turn.__exit__(None, None, None)
            except RuntimeError as error:
                thread_errors.append(error)

        thread = threading.Thread(target=release)
        thread.start()
        thread.join()
        assert len(thread_errors) == 1

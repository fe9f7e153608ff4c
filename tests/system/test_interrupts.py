"""Sections that signals wait for."""

import gc
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import pytest

from kstore_core.system.interrupts import interruptible, uninterrupted


class Told(Exception):  # noqa: N818
    pass


@pytest.fixture
def handled():
    """The signals that a handler has seen; SIGUSR1 and SIGUSR2, of which the second raises."""
    seen = []

    def see(number, frame):
        seen.append(number)
        if number == signal.SIGUSR2:
            raise Told

    before = [(number, signal.signal(number, see)) for number in (signal.SIGUSR1, signal.SIGUSR2)]
    yield seen
    for number, handler in before:
        signal.signal(number, handler)


def section(*signals, then=lambda: None):
    """A section in which these signals come before something is done."""
    with uninterrupted():
        for number in signals:
            signal.raise_signal(number)
        then()


def test_an_interrupt_comes_at_the_end():
    before = signal.getsignal(signal.SIGINT)
    steps = []
    with pytest.raises(KeyboardInterrupt):
        section(signal.SIGINT, then=lambda: steps.append("behind"))
    assert steps == ["behind"]
    assert signal.getsignal(signal.SIGINT) is before


def test_every_handler_of_python_waits_and_is_called_once(handled):
    within = []
    with pytest.raises(Told):
        section(signal.SIGUSR1, signal.SIGUSR2, then=lambda: within.extend(handled))
    assert within == []
    assert handled == [signal.SIGUSR1, signal.SIGUSR2]


def test_one_that_raises_does_not_keep_the_others_from_being_called(handled):
    with pytest.raises(Told):
        section(signal.SIGUSR2, signal.SIGUSR1)
    assert handled == [signal.SIGUSR2, signal.SIGUSR1]


def test_the_outermost_section_counts(handled):
    with uninterrupted():
        with uninterrupted():
            signal.raise_signal(signal.SIGUSR1)
        assert handled == []
    assert handled == [signal.SIGUSR1]


def test_an_error_within_is_the_context_of_the_interrupt():
    def fail():
        raise Told

    with pytest.raises(KeyboardInterrupt) as raised:
        section(signal.SIGINT, then=fail)
    assert isinstance(raised.value.__context__, Told)


def test_a_part_that_is_interruptible(handled):
    seen = []

    def part(number):
        with interruptible():
            seen.append(list(handled))
            signal.raise_signal(number)

    with uninterrupted():
        signal.raise_signal(signal.SIGUSR1)
        with pytest.raises(Told):
            part(signal.SIGUSR2)
        assert seen == [[signal.SIGUSR1]]  # what had come is handled before
        signal.raise_signal(signal.SIGUSR2)
        with pytest.raises(Told):
            part(signal.SIGUSR1)
        assert len(seen) == 1
        handled.clear()
        signal.raise_signal(signal.SIGUSR1)
        assert handled == []
    assert handled == [signal.SIGUSR1]


def test_a_part_that_was_never_left_does_not_change_later_sections(handled):
    """As after an exception between the end of its block and the call of ``__exit__``."""
    for depth in (1, 2):
        with ExitStack() as sections:
            for _ in range(depth):
                sections.enter_context(uninterrupted())
            interruptible().__enter__()
        for _ in range(2):
            handled.clear()
            with uninterrupted():
                signal.raise_signal(signal.SIGUSR1)
                assert handled == []
            assert handled == [signal.SIGUSR1]
        signal.raise_signal(signal.SIGUSR1)
        assert len(handled) == 2


def test_a_part_that_is_left_after_its_section_leaves_nothing(handled):
    section, part = uninterrupted(), interruptible()
    section.__enter__()
    part.__enter__()
    section.__exit__(None, None, None)
    part.__exit__(None, None, None)
    signal.raise_signal(signal.SIGUSR1)
    assert handled == [signal.SIGUSR1]


def test_of_two_handlers_that_raise_both_are_told():
    def alarm(number, frame):
        raise Told

    before = signal.signal(signal.SIGALRM, alarm)
    try:
        with pytest.raises(Told) as raised:
            section(signal.SIGINT, signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert isinstance(raised.value.__context__, KeyboardInterrupt)


AT_THE_LIMIT = """
import faulthandler, signal, sys
from kstore_core.system.interrupts import enter, leave, uninterrupted

class Handle:
    __enter__, __exit__ = enter, leave
    _check = _leave = staticmethod(lambda *_: None)

def deep(depth):
    if depth:
        return deep(depth - 1)
    with Handle():
        pass

faulthandler.dump_traceback_later(50, exit=True)
sys.setrecursionlimit(200)
ended = set()
for depth in range(150, 200):
    try:
        deep(depth)
        ended.add("well")
    except RecursionError:
        ended.add("at the limit")
    with uninterrupted():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, depth
assert ended == {"well", "at the limit"}
"""


def test_at_the_recursion_limit_handles_do_not_hang_or_delay_signals():
    subprocess.run([sys.executable, "-c", AT_THE_LIMIT], check=True)


def test_outside_of_a_section_nothing_is_done(handled):
    with interruptible():
        signal.raise_signal(signal.SIGUSR1)
    assert handled == [signal.SIGUSR1]


def test_a_handler_that_is_set_within_stays(handled):
    with uninterrupted():
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN


def test_other_threads_have_no_part_in_it(handled):
    with uninterrupted():
        thread = threading.Thread(target=lambda: uninterrupted().__enter__())
        thread.start()
        thread.join()
        signal.raise_signal(signal.SIGUSR1)
        assert handled == []
    assert handled == [signal.SIGUSR1]


@pytest.fixture
def handle():
    """A class that counts how many of its objects were freed."""

    class Handle:
        freed = 0

        def __del__(self):
            Handle.freed += 1

    return Handle


def test_frames_of_an_interrupt_hold_nothing(handle):
    """What was opened in a call that ended by KeyboardInterrupt goes, though that is kept."""

    def work():
        opened = handle()
        raise KeyboardInterrupt(type(opened))

    with pytest.raises(KeyboardInterrupt) as kept, uninterrupted():
        work()
    gc.collect()
    assert kept.value.__traceback__ is not None
    assert handle.freed == 1


def test_a_signal_that_waits_keeps_no_frame(handle):
    """A handler is given a frame, which a kept exception would hold with all that is in it."""
    where = []

    def work():
        opened = handle()
        signal.raise_signal(signal.SIGUSR1)
        return type(opened)

    def see(number, frame):
        where.append(frame.f_code.co_name)
        raise Told

    before = signal.signal(signal.SIGUSR1, see)
    try:
        with pytest.raises(Told) as kept, uninterrupted():
            work()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert handle.freed == 1
    assert kept.value.__traceback__ is not None
    assert where == ["test_a_signal_that_waits_keeps_no_frame"]


@pytest.mark.parametrize("others", [[], [signal.SIGINT]], ids=["alone", "after others"])
def test_a_handler_that_is_not_pythons_stays(tmp_path, others):
    """Faulthandler registers its own before that of Python, which does not know of it."""
    code = """
import faulthandler, signal, sys
from kstore_core.system.interrupts import uninterrupted
seen = []
for number in map(int, sys.argv[2:]):
    signal.signal(number, signal.default_int_handler)
if len(sys.argv) == 2:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
with open(sys.argv[1], "w") as out:
    faulthandler.register(signal.SIGUSR1, file=out, chain=True)
    for _ in range(2):
        with uninterrupted():
            signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR1)
assert len(seen) == 4
"""
    out = tmp_path / "out"
    numbers = [str(int(number)) for number in others]
    subprocess.run([sys.executable, "-c", code, str(out), *numbers], check=True)
    assert out.read_text().count("most recent call first") == 4


def test_the_main_thread_is_where_handlers_run():
    """It need not be that which has imported threading, by which Python 3.11 goes."""
    code = """
import _thread, signal, sys, time
assert "threading" not in sys.modules
told = []
def other():
    try:
        from kstore_core.system.interrupts import uninterrupted
        with uninterrupted():
            told.append("within")
    except BaseException as error:
        told.append(repr(error))
    told.append("end")
_thread.start_new_thread(other, ())
while "end" not in told:
    time.sleep(0.01)
assert told == ["within", "end"], told
from kstore_core.system.interrupts import uninterrupted
done = False
try:
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
        done = True
except KeyboardInterrupt:
    sys.exit(0 if done else 1)
sys.exit(2)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="where the flags are is the system's")
def test_a_section_leaves_the_flags_of_signals_alone():
    """By them a system call goes on after a signal, where a program has asked for that."""
    code = """
import ctypes, signal
from kstore_core.system.interrupts import uninterrupted
flags = lambda: (libc.sigaction(signal.SIGUSR1, None, room), room.raw[136:140])[1]
libc, room = ctypes.CDLL(None), ctypes.create_string_buffer(256)
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.siginterrupt(signal.SIGUSR1, False)
before = flags()
with uninterrupted():
    pass
assert flags() == before
signal.siginterrupt(signal.SIGUSR1, True)
assert flags() != before
"""
    subprocess.run([sys.executable, "-c", code], check=True)


FORKED = """
import os, signal, sys, threading
from kstore_core.system.interrupts import uninterrupted
def child():
    if os.fork():
        return os.wait()
    try:
        act()
    except KeyboardInterrupt as error:
        os._exit(error.args != ())
    os._exit(2)
status = []
thread = threading.Thread(target=lambda: status.append(child()[1]))
"""
"""Makes a thread whose child has to end with a KeyboardInterrupt of ``act``."""

JOINED = "thread.start(); thread.join()"
ENDED = "sys.exit(os.waitstatus_to_exitcode(status[0]))"


def test_a_child_of_a_fork_has_sections_of_its_own():
    code = f"""{FORKED}
def act():
    done = False
    try:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done = True
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*() if done else ("within the section",))
{JOINED}
{ENDED}
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_child_of_another_thread_is_in_no_section():
    """Of one that was forked while the main thread was in a section: its signals do not wait."""
    code = f"""{FORKED}
def act():
    signal.raise_signal(signal.SIGINT)
with uninterrupted():
    {JOINED}
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
{ENDED}
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_however_often_and_whenever_they_come_none_is_within():
    """Real signals, of which some come as a section begins or ends."""
    within = rounds = came = wrong = 0

    def come(number, frame):
        nonlocal came
        if time.monotonic() < end:
            came += 1
            raise Told

    def lead():
        nonlocal within, rounds
        while time.monotonic() < end:
            rounds += 1
            with uninterrupted():
                within = 1
                for _ in range(20):
                    with uninterrupted():
                        rounds += 0
                within = 0

    before = signal.signal(signal.SIGALRM, come)
    end = time.monotonic() + 1
    try:
        while time.monotonic() < end:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + (came % 50) * 1e-5)
                lead()
            except Told:
                wrong += within
                within = 0
    except Told:  # it came behind the last lead, which is as good
        pass
    finally:
        end = 0.0  # what comes from now on is not told
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert wrong == 0
    assert came > 10
    assert rounds > came


def test_a_handler_is_told_the_frame_of_the_section_and_keeps_no_other(handle):
    """It may raise, and who keeps that keeps the handler's frame, and with it what it was told."""

    def see(number, frame):
        raise Told(frame)

    def work():
        opened = handle()
        signal.raise_signal(signal.SIGUSR1)
        return type(opened)

    def lead():
        with uninterrupted():
            work()

    before = signal.signal(signal.SIGUSR1, see)
    with pytest.raises(Told) as kept:
        lead()
    signal.signal(signal.SIGUSR1, before)
    gc.collect()
    assert kept.value.args[0].f_code.co_name == "lead"
    assert handle.freed == 1

# cython: language_level=3
"""Sections that signals wait for: a Ctrl-C is raised behind them, not between two of their steps.

Python runs a signal's handler between any two steps of the main thread, and what it raises, such as
KeyboardInterrupt, may come between the making of a handle and the note that it was made. Within a
section of this module handlers of Python's are put off until its end. All of it is compiled: no
step of Python's, and so no handler, comes between its own.

A section is for what is short, such as a commit. What waits for others, such as a broker or a
lock, is done in an :class:`interruptible` part of it, at a place where nothing is half done.
"""

import os
from sys import _getframe
from traceback import clear_frames as _clear_frames

import _signal
from posix.signal cimport SA_RESTART, sigaction, sigaction_t

__all__ = ["interruptible", "uninterrupted"]

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident()

cdef tuple _SIGNALS = tuple(map(int, sorted(_signal.valid_signals())))
cdef object _handler_of = _signal.getsignal
cdef object _set_handler = _signal.signal

cdef unsigned long _main = 0        # where handlers run; 0 until it is known
cdef object _python = None          # the address of Python's own handler of signals
cdef Py_ssize_t _depth = 0          # of sections; those are of the main thread, as handlers are
cdef list _kept = []                # (signal, its handler, whether calls go on) while they are put off
cdef list _came = []                # signals that came meanwhile


def _put_off(signal, frame):
    """The handler of all signals within a section.

    The frame is not kept: it would keep what is in it, such as an iterator, long after its return.
    """
    _came.append(signal)


cdef bint _is_main() except -1:
    """Whether handlers run in this thread. Python is asked: threading knows who imported it."""
    global _main
    cdef unsigned long ident = PyThread_get_thread_ident()
    if _main == 0:
        try:
            _set_handler(_signal.SIGINT, None)
        except ValueError:  # not in this thread
            return False
        except TypeError:  # None is no handler
            _main = ident
    return ident == _main


cdef bint _restarts(int signal) noexcept:
    """Whether system calls go on after a signal, which Python does not know of."""
    cdef sigaction_t action
    return sigaction(signal, NULL, &action) == 0 and (action.sa_flags & SA_RESTART) != 0


cdef int _set(int signal, object handler, bint restarts) except -1:
    """Put a handler in the place of another.

    Where a handler of before has something to do it does it first, and may raise: then nothing was
    changed.
    """
    cdef sigaction_t action
    _set_handler(signal, handler)
    if restarts and sigaction(signal, NULL, &action) == 0:
        action.sa_flags |= SA_RESTART
        sigaction(signal, &action, NULL)
    return 0


cdef bint _is_behind(int signal, object handler) except -1:
    """Whether another handler than Python's stands before it, such as one of faulthandler."""
    global _python
    cdef sigaction_t before, after
    if sigaction(signal, NULL, &before) != 0:
        return False
    if _python is None:
        _set_handler(signal, handler)
        sigaction(signal, NULL, &after)
        _python = <size_t>after.sa_handler
        sigaction(signal, &before, NULL)
    return <size_t>before.sa_handler != <size_t>_python


cdef int _begin() except -1:
    """Put off the handlers; where one that is due raises, none is."""
    global _kept
    try:
        for signal in _SIGNALS:
            handler = _handler_of(signal)
            if handler is not None and handler is not _put_off and callable(handler):
                if _is_behind(signal, handler):
                    continue
                restarts = _restarts(signal)
                _set(signal, _put_off, restarts)
                _kept.append((signal, handler, restarts))
    except BaseException:
        _end()
        raise
    return 0


cdef object _restore(list kept):
    """Put handlers back, whatever they raise meanwhile; gives what was raised last, or None."""
    raised = None
    for signal, handler, restarts in kept:
        while True:
            try:
                if _handler_of(signal) is _put_off:  # or somebody within has set another
                    _set(signal, handler, restarts)
            except BaseException as error:
                raised = error
            else:
                break
    return raised


cdef int _end() except -1:
    """Put the handlers back, and call those whose signals have come."""
    global _kept, _came
    cdef list kept = _kept
    raised = _restore(kept)
    cdef list came = _came
    _kept, _came = [], []
    if came:
        handlers = {signal: handler for signal, handler, _ in kept}
    for signal in came:
        try:
            handlers[signal](signal, _getframe())
        except BaseException as error:
            raised = error
    if raised is not None:
        raise raised
    return 0


cdef class uninterrupted:
    """``with uninterrupted():`` a section that signals wait for. Such sections may be nested.

    In another thread than the main one, where no handler runs, it puts nothing off.

    Where it is left by KeyboardInterrupt or its like all the same, from an
    :class:`interruptible` part or by ``PyThreadState_SetAsyncExc``, the frames of what was called
    are cleared. So what they have opened and nobody else knows of is closed at once, however long
    the exception is kept.
    """

    cdef bint _counted

    def __enter__(self):
        global _depth
        if not _is_main():
            return
        if _depth == 0:
            _begin()
        _depth += 1
        self._counted = True

    def __exit__(self, kind, error, trace):
        global _depth
        if kind is not None and not issubclass(kind, Exception):
            _clear_frames(trace)
        if self._counted:
            self._counted = False
            _depth -= 1
            if _depth == 0:
                _end()


cdef class interruptible:
    """``with interruptible():`` a part of a section in which signals are handled as ever.

    What has come before it is handled when it begins. Outside of a section it does nothing.
    """

    cdef Py_ssize_t _before

    def __enter__(self):
        global _depth
        if _depth == 0 or not _is_main():
            return
        self._before, _depth = _depth, 0
        try:
            _end()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __exit__(self, kind, error, trace):
        global _depth
        cdef Py_ssize_t before = self._before
        cdef object raised = None
        self._before = 0
        if not before:
            return
        while True:  # whatever comes at this moment: what follows is within the section again
            try:
                _begin()
            except BaseException as late:
                raised = late
            else:
                break
        _depth += before  # not =, whatever order sections are left in
        if raised is not None:
            raise raised


def _after_fork():
    """The thread that forked is the main one of the child; a section of another is not there."""
    global _main, _depth, _kept, _came
    cdef list kept = _kept
    if _depth and PyThread_get_thread_ident() != _main:
        _depth, _kept, _came = 0, [], []
        _main = 0
        _restore(kept)
    _main = 0


os.register_at_fork(after_in_child=_after_fork)

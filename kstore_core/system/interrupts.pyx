# cython: language_level=3
"""Sections that delay signals, so that a Ctrl-C in a section is raised at the section's end.

Python runs a signal handler between any two bytecodes of the main thread. An exception of the
handler, such as KeyboardInterrupt, may come after a handle was opened and before any variable
refers to the handle. A section of this module delays the handlers of Python until the section ends.
The module is compiled, so no handler runs between its own steps.

Use a section for short work, such as a commit. If the work must wait for a broker or a lock, put
the wait into an :class:`interruptible` block, at a point where no change is incomplete.
"""

import os
from sys import _getframe
from traceback import clear_frames as _clear_frames

import _signal
from posix.signal cimport SA_RESTART, sigaction, sigaction_t

__all__ = ["enter", "interruptible", "leave", "uninterrupted"]

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident()

cdef tuple _SIGNALS = tuple(map(int, sorted(_signal.valid_signals())))
cdef object _handler_of = _signal.getsignal
cdef object _set_handler = _signal.signal

cdef enum:
    MOST_TRIES = 1000   # how often a change of a handler is tried, if pending signals raise

cdef unsigned long _main = 0        # the thread that runs handlers; 0 until it is known
cdef object _python = None          # the address of Python's C handler of signals
cdef Py_ssize_t _depth = 0          # the number of nested sections of the main thread
cdef list _replaced = []                # (signal, handler, restarts system calls) within a section
cdef Py_ssize_t _early = 0          # the number of sections left within an interruptible block
cdef list _pending = []                # signals that arrived within the section


def _delay(signal, frame):
    """Delay a signal. This function is the handler of all signals within a section.

    The function stores no reference to the frame. A reference would keep the objects of the frame
    alive, for example scans.
    """
    _pending.append(signal)


cdef bint _is_main() except -1:
    """Return True if signal handlers run in this thread.

    The function tries to set a handler, which only the main thread may do. It does not use
    ``threading.main_thread``, which returns the thread that first imported ``threading``.
    """
    global _main
    cdef unsigned long ident = PyThread_get_thread_ident()
    if _main == 0:
        try:
            _set_handler(_signal.SIGINT, None)
        except ValueError:  # this is not the main thread
            return False
        except TypeError:  # this is the main thread, in which Python rejects the handler None
            _main = ident
    return ident == _main


cdef bint _restarts(int signal) noexcept:
    """Return True if system calls restart after this signal."""
    cdef sigaction_t action
    return sigaction(signal, NULL, &action) == 0 and (action.sa_flags & SA_RESTART) != 0


cdef int _set(int signal, object handler, bint restarts) except -1:
    """Replace the handler of a signal.

    If a signal is pending, Python first calls the handler of the pending signal. If this handler
    raises, no handler is replaced.
    """
    cdef sigaction_t action
    _set_handler(signal, handler)
    if restarts and sigaction(signal, NULL, &action) == 0:
        action.sa_flags |= SA_RESTART
        sigaction(signal, &action, NULL)
    return 0


cdef bint _is_shadowed(int signal, object handler) except -1:
    """Return True if another library, such as faulthandler, has replaced Python's C handler."""
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
    """Delay all handlers. If the handler of a pending signal raises, no handler is delayed."""
    global _replaced
    try:
        for signal in _SIGNALS:
            handler = _handler_of(signal)
            if handler is not None and handler is not _delay and callable(handler):
                if _is_shadowed(signal, handler):
                    continue
                restarts = _restarts(signal)
                _set(signal, _delay, restarts)
                _replaced.append((signal, handler, restarts))
    except BaseException:
        _end()
        raise
    return 0


cdef object _begin_anyway():
    """Delay all handlers, even if some raise first. Return the last exception, or None.

    If the handlers cannot be delayed, for example at the recursion limit, raise the exception.
    """
    raised = None
    for _ in range(MOST_TRIES):
        try:
            _begin()
        except BaseException as error:
            raised = _chained(raised, error)
        else:
            return raised
    raise raised


cdef object _chained(object earlier, object later):
    """Return the later exception. Its context is the earlier one if it has no other context."""
    cause = earlier
    while cause is not None:
        if cause is later:
            return later
        cause = cause.__context__
    if later.__context__ is None:
        later.__context__ = earlier
    return later


cdef object _restore(list replaced, list left):
    """Restore all handlers, even if some raise. Return the last exception, or None.

    Handlers that cannot be restored, for example at the recursion limit, are added to `left`.
    """
    raised = None
    for signal, handler, restarts in replaced:
        for _ in range(MOST_TRIES):
            try:
                if _handler_of(signal) is _delay:  # otherwise the section has set a new handler
                    _set(signal, handler, restarts)
            except BaseException as error:
                raised = _chained(raised, error)
            else:
                break
        else:
            left.append((signal, handler, restarts))
    return raised


cdef int _end() except -1:
    """Restore the handlers, and call the handlers of the pending signals."""
    global _replaced, _pending
    cdef list replaced = _replaced
    cdef list left = []             # handlers that the end of the next section restores
    raised = _restore(replaced, left)
    cdef list pending = _pending
    _replaced, _pending = left, []
    if pending:
        handlers = {signal: handler for signal, handler, _ in replaced}
    for signal in pending:
        try:
            handlers[signal](signal, _getframe())
        except BaseException as error:
            raised = _chained(raised, error)
    if raised is not None:
        raise raised
    return 0


cdef class uninterrupted:
    """A context manager whose block is a section that delays signals. Sections may be nested.

    A section delays signals only in the main thread, because Python calls signal handlers only in
    the main thread.

    A KeyboardInterrupt may still leave the section, if it is raised in an :class:`interruptible`
    block or is sent by ``PyThreadState_SetAsyncExc``. The section then clears the local variables
    of the frames in the traceback. So a handle is closed at once if only these variables refer to
    the handle.
    """

    cdef bint _counted

    def __enter__(self):
        self._enter(False)

    cdef object _enter(self, bint anyway):
        """Enter the section. If the handler of a pending signal raises, raise its exception.

        If ``anyway``, enter the section all the same, and return the last exception, or None.
        """
        global _depth, _early
        raised = None
        if not _is_main():
            return None
        if _depth == 0:
            if anyway:
                raised = _begin_anyway()
            else:
                _begin()
        _depth += 1
        _early = 0
        self._counted = True
        return raised

    def __exit__(self, kind, error, trace):
        self._exit(kind, trace)

    cdef int _exit(self, kind, trace) except -1:
        global _depth, _early
        try:
            if kind is not None and not issubclass(kind, Exception):
                _clear_frames(trace)
        finally:
            if self._counted:
                self._counted = False
                if _depth:
                    _depth -= 1
                else:  # an interruptible block is left later, or was never left
                    _early += 1
                if _depth == 0:
                    _end()
        return 0


cdef class interruptible:
    """A context manager whose block is a part of a section in which signals are not delayed.

    Pending signals are handled when the block begins. Outside a section the block has no effect.
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
        global _depth, _early
        cdef Py_ssize_t before = self._before - min(self._before, _early)
        self._before = 0
        _early = 0
        if not before:
            return
        try:
            raised = _begin_anyway()
        finally:
            _depth += before  # not =, because sections may be left in another order
        if raised is not None:
            raise raised


def enter(self):
    """Check that a handle is open. This function is the ``__enter__`` of handles.

    If an interrupt comes in an ``__enter__`` that is written in Python, ``__exit__`` is not called,
    and the traceback refers to the handle. The handle then stays open as long as the program refers
    to the exception. This compiled function delays signals, and the traceback does not refer to the
    handle. So Python closes the handle at once.
    """
    cdef uninterrupted section = uninterrupted()
    section._enter(False)
    try:
        self._check()
    except BaseException as raised:
        section._exit(type(raised), raised.__traceback__)
        raise
    # A `with` statement would call __exit__, and this call can raise at the recursion limit.
    section._exit(None, None)
    return self


def leave(self, kind, error, trace):
    """Call the method ``_leave`` of a handle. This function is the ``__exit__`` of handles.

    Python checks for signals when a function begins. So if a signal has arrived near the end of the
    block, an ``__exit__`` that is written in Python is interrupted before its first statement, and
    closes nothing. This compiled function delays signals first.

    ``_leave`` is called with True if the block ended normally. A signal that has arrived before
    counts as an exception of the block.
    """
    cdef uninterrupted section = uninterrupted()
    late = None
    try:
        late = section._enter(True)
    except BaseException as raised:  # The section could not begin, so leave without it.
        late = raised
    try:
        try:
            self._leave(kind is None and late is None)
        finally:
            if late is not None:
                raise late
    except BaseException as raised:
        section._exit(type(raised), raised.__traceback__)
        raise
    section._exit(None, None)


def _after_fork():
    """Make the forking thread the child's main thread, and forget sections of other threads."""
    global _main, _depth, _replaced, _pending
    cdef list replaced = _replaced
    if _depth and PyThread_get_thread_ident() != _main:
        _depth, _replaced, _pending = 0, [], []
        _main = 0
        _restore(replaced, [])
    _main = 0


os.register_at_fork(after_in_child=_after_fork)

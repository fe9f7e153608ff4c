# cython: language_level=3
"""The current input record, from which a write takes its time and headers.

Each task and each thread has its own current record, in a context variable. A task that has set no
record uses the record of the task or thread that started it. docs/asyncio.md shows the consequences
for a program. docs/decisions/stores/record-contexts.md gives the reasons.
"""

cimport cython

from contextvars import ContextVar

from kstore_core.errors import StateError

__all__ = ["OpenRecord", "CurrentRecord"]


cdef class CurrentRecord:
    """The current input records of all tasks and threads that use a state directory.

    Parameters
    ----------
    where : str
        The name of the state directory in error messages.
    """

    def __cinit__(self, str where="the state directory"):
        self._where = where
        self._var = ContextVar("kstore record", default=None)

    @property
    def current(self):
        """The record of the calling task or thread, or None. The record's block may have ended."""
        return self.now()

    def of_a_write(self):
        """Return the input record for a write in the calling task or thread, or None.

        A write must call this before it changes anything.

        Raises
        ------
        StateError
            The calling task or thread has the record of the task or thread that started it, and the
            block of this record has ended.
        """
        return self.of_write()

    cdef OpenRecord _top(self):
        """Return the innermost record of the calling context whose stage is not PASSED."""
        cdef PyObject *found = NULL
        cdef OpenRecord record
        PyContextVar_Get(self._var, NULL, &found)
        record = <OpenRecord>(<object>found)
        Py_DECREF(<object>found)
        while record is not None and record._stage == PASSED:
            record = record._below
        return record

    cdef object _ended(self, OpenRecord record):
        what = record._context
        name = "" if what.topic is None else f" {what.topic}-{what.partition}@{what.offset}"
        raise StateError(
            f"{self._where}: this task or thread was started in the block of the record{name}, and "
            "that block has ended, so the record's time and headers cannot be used; nothing was "
            "written. Await the task within the block, or open a state.record(…) in the task"
        )


# no_gc_clear: __dealloc__ needs the CurrentRecord.
@cython.final
@cython.no_gc_clear
cdef class OpenRecord:
    """An input record that is the current record from :meth:`enter` until :meth:`leave`.

    Parameters
    ----------
    current_record : CurrentRecord
    context : RecordContext or None
        The input record. If None, there is no current record, even inside the block of another
        record.
    begins, ends : callable, optional
        Functions without arguments that a ``with`` block of this object calls at its beginning and
        at its normal end, while this is the current record.
    """

    def __cinit__(
        self, CurrentRecord current_record not None, context, begins=None, ends=None
    ):
        self._current_record = current_record
        self._context = context
        self._begins = begins
        self._ends = ends
        current_record._alive += 1

    def __dealloc__(self):
        self._current_record._alive -= 1

    # In an __exit__ that is written in Python, an interrupt could come before the first step.
    def __enter__(self):
        self.enter()
        if self._begins is not None:
            try:
                self._begins()
            except BaseException:
                self.leave()
                raise
        return self._context

    def __exit__(self, kind, error, trace):
        try:
            if kind is None and self._stage == OPEN and self._ends is not None:
                self._ends()
        finally:
            self.leave()

    def enter(self):
        """Make this the current record of the calling task or thread.

        The record is also current in tasks that the calling task or thread starts afterwards.

        Raises
        ------
        StateError
            This method was called before.
        """
        if self._stage != FRESH:
            raise StateError(
                f"{self._current_record._where}: a record can have only one `with` block; call "
                "state.record(…) again for another block"
            )
        self._below = self._current_record._top()
        self._stage = OPEN
        self._token = self._current_record._var.set(self)

    def leave(self):
        """Make the earlier record current again. Do nothing if :meth:`enter` was not called."""
        cdef object var = self._current_record._var
        cdef OpenRecord last
        if self._stage != OPEN:
            return
        token, self._token = self._token, None
        self._begins = self._ends = None  # A copy of the context may keep this record for long.
        self._stage = PASSED  # The variable of another context may still contain this record.
        if var.get() is self:
            try:
                var.reset(token)
            except ValueError:  # This context is a copy of the context that called enter.
                return
            self._stage = ENDED
        last = var.get()
        if last is not None and last._stage == PASSED:
            var.set(self._current_record._top())

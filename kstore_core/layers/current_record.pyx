# cython: language_level=3
"""The input record of a write. Each task and thread has its own.

A context variable holds the records. So a task sees its own record, or the record of the task or
thread that its context was copied from. docs/asyncio.md shows the effect on a program;
docs/decisions/stores/record-contexts.md has the reasons.
"""

cimport cython

from contextvars import ContextVar

from kstore_core.errors import StateError

__all__ = ["OpenRecord", "CurrentRecord"]


cdef class CurrentRecord:
    """The current input records of a state directory's tasks and threads.

    Parameters
    ----------
    where : str
        The state directory, for error messages.
    """

    def __cinit__(self, str where="the state directory"):
        self._where = where
        self._var = ContextVar("kstore record", default=None)

    @property
    def current(self):
        """The record of the calling task or thread, even an ended one; None without one."""
        return self.now()

    def of_a_write(self):
        """The input record of a write, or None. Call it before anything is written.

        Raises
        ------
        StateError
            The record has ended in the task or thread that started this one.
        """
        return self.of_write()

    cdef OpenRecord _top(self):
        """The innermost record of the calling context whose stage is not PASSED."""
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
    """A record that is current between :meth:`enter` and :meth:`leave`.

    Parameters
    ----------
    current_record : CurrentRecord
    context : RecordContext or None
        None for no record, even inside another record's block.
    """

    def __cinit__(self, CurrentRecord current_record not None, context):
        self._current_record = current_record
        self._context = context
        current_record._alive += 1

    def __dealloc__(self):
        self._current_record._alive -= 1

    def enter(self):
        """Make this the record of the calling task or thread, and of those started from it."""
        self._below = self._current_record._top()
        self._stage = OPEN
        self._token = self._current_record._var.set(self)

    def leave(self):
        """Restore the outer record. Without an :meth:`enter` it does nothing."""
        cdef object var = self._current_record._var
        cdef OpenRecord last
        if self._stage != OPEN:
            return
        token, self._token = self._token, None
        self._stage = PASSED  # if this is another context, the variable there keeps the record
        if var.get() is self:
            try:
                var.reset(token)
            except ValueError:  # this context is a copy of the one in which it was entered
                return
            self._stage = ENDED
        last = var.get()
        if last is not None and last._stage == PASSED:
            var.set(self._current_record._top())

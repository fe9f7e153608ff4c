# cython: language_level=3
"""The input record that a write comes from: for each task and thread its own.

Records are kept in a context variable, so a task sees those that it works on itself, and those of
the task or thread that its context was copied from. docs/asyncio.md tells what that means for a
program, docs/decisions/stores/record-contexts.md why it is made so.
"""

cimport cython

from contextvars import ContextVar

from kstore_core.errors import StateError

__all__ = ["OpenRecord", "CurrentRecord"]


cdef class CurrentRecord:
    """The input records that a state directory's tasks and threads are working on.

    Parameters
    ----------
    where : str
        The state directory, for messages.
    """

    def __cinit__(self, str where="the state directory"):
        self._where = where
        self._var = ContextVar("kstore record", default=None)

    @property
    def current(self):
        """The record of the calling task or thread, also one that has ended; None without one."""
        return self.now()

    def of_a_write(self):
        """The record that a write comes from, to be asked before anything is written; or None.

        Raises
        ------
        StateError
            The record has ended, in the task or thread that this one was started by.
        """
        return self.of_write()

    cdef OpenRecord _top(self):
        """The innermost record of the calling context that is not passed over."""
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
            f"{self._where}: the record{name} has ended, and this task or thread was started "
            "within it, so its time and headers may no longer be lent; nothing was written. Await "
            "what a record starts before its block ends, or write within a state.record(…) of its "
            "own"
        )


# Its references are not cleared one by one: the count at the end needs its CurrentRecord.
@cython.final
@cython.no_gc_clear
cdef class OpenRecord:
    """A record that is worked on between :meth:`enter` and :meth:`leave`.

    Parameters
    ----------
    current_record : CurrentRecord
    context : RecordContext or None
        None stands for no record, whatever record is around it.
    """

    def __cinit__(self, CurrentRecord current_record not None, context):
        self._current_record = current_record
        self._context = context
        current_record._alive += 1

    def __dealloc__(self):
        self._current_record._alive -= 1

    def enter(self):
        """Make this the record of the calling task or thread, and of those that it starts."""
        self._below = self._current_record._top()
        self._stage = OPEN
        self._token = self._current_record._var.set(self)

    def leave(self):
        """Restore the record around it. One that was never entered may be left, too."""
        cdef object var = self._current_record._var
        cdef OpenRecord last
        if self._stage != OPEN:
            return
        token, self._token = self._token, None
        self._stage = PASSED  # it stays where it was entered, if that is another context
        if var.get() is self:
            try:
                var.reset(token)
            except ValueError:  # this context is a copy of the one that it was entered in
                return
            self._stage = ENDED
        last = var.get()
        if last is not None and last._stage == PASSED:
            var.set(self._current_record._top())

"""The errors of serdes. Each class extends SerdeError and the type of the serde's own error."""

from __future__ import annotations

from kstore_core.errors import FormatError, SerdeError

__all__ = [
    "SerdeFormatError",
    "SerdeTypeError",
    "SerdeUnicodeError",
    "SerdeValueError",
    "serde_error",
]


class SerdeTypeError(SerdeError, TypeError):
    """The error that a serde raised a TypeError."""


class SerdeValueError(SerdeError, ValueError):
    """The error that a serde raised a ValueError."""


class SerdeFormatError(SerdeError, FormatError):
    """The error that a serde raised a FormatError."""

    def __reduce__(self) -> tuple[object, ...]:
        return (_format_error, (str(self), self.offset))


def _format_error(message: str, offset: int | None) -> FormatError:
    return SerdeFormatError(message, offset=offset)


class SerdeUnicodeError(SerdeError, UnicodeEncodeError):
    """The error that a serde raised a UnicodeEncodeError."""

    message = ""

    def __str__(self) -> str:
        return self.message


def serde_error(error: Exception, where: str) -> Exception:
    """Return a SerdeError that names the serde and the key and has the type of a serde's error.

    If no subclass of SerdeError has this type, return the serde's error itself, with a note that
    names the serde and the key.
    """
    message = f"{where}: {error}"
    if type(error) is UnicodeEncodeError:
        unencodable = SerdeUnicodeError(*error.args)
        unencodable.message = message
        return unencodable
    if type(error) is FormatError:
        message += ". Open the store with the serde that wrote it"
        return SerdeFormatError(message, offset=error.offset)
    if type(error) in (TypeError, ValueError):
        return (SerdeTypeError if type(error) is TypeError else SerdeValueError)(message)
    error.add_note(where)
    return error

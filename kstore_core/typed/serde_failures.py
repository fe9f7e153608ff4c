"""Errors of serdes. Each is a SerdeError, and also an error of the type that the serde raised."""

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
    """A serde raised a TypeError."""


class SerdeValueError(SerdeError, ValueError):
    """A serde raised a ValueError."""


class SerdeFormatError(SerdeError, FormatError):
    """A serde raised a FormatError."""

    def __reduce__(self) -> tuple[object, ...]:
        return (_format_error, (str(self), self.offset))


def _format_error(message: str, offset: int | None) -> FormatError:
    return SerdeFormatError(message, offset=offset)


class SerdeUnicodeError(SerdeError, UnicodeEncodeError):
    """A serde raised a UnicodeEncodeError."""

    message = ""

    def __str__(self) -> str:
        return self.message


def serde_error(error: Exception, where: str) -> Exception:
    """Return a SerdeError of the same type as a serde's error, which names the serde and the key.

    If there is no SerdeError of this type, return the error itself, with the place as a note.
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

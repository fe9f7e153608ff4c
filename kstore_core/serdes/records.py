"""The serde of dataclasses and of other classes that the library msgspec supports."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from kstore_core.checks import check_choice
from kstore_core.errors import EngineUnavailableError, FormatError
from kstore_core.hints import install
from kstore_core.serdes.schemas import class_type
from kstore_core.serdes.serde import BuiltInSerde
from kstore_core.serdes.typed import from_arrow
from kstore_core.serdes.types import Type

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RecordSerde", "record"]

T = TypeVar("T")


class RecordSerde(BuiltInSerde[Any]):
    """A serde of the objects of one class; see :func:`record`."""

    def __init__(self, cls: Any, form: str) -> None:
        try:
            import msgspec
        except ImportError as error:
            raise EngineUnavailableError(
                f"serdes.record needs the library msgspec. Run: {install('records')}"
            ) from error
        self._parts = (cls, form)
        self._msgspec = msgspec
        library = msgspec.json if form == "json" else msgspec.msgpack
        write = library.Encoder().encode
        read = library.Decoder(cls).decode

        def encode(value: Any) -> bytes:
            if type(value) is dict:  # a row of an Arrow column, or a TypedDict
                value = msgspec.convert(value, cls)
            elif not isinstance(value, cls):
                raise TypeError(f"{self!r} takes {cls.__qualname__}, not {type(value).__name__}")
            return bytes(write(value))

        def decode(data: bytes) -> Any:
            try:
                return read(data)
            except msgspec.DecodeError as error:
                raise FormatError(f"stored bytes are not {self._of}: {error}") from error

        self._of = f"{form} of {cls.__qualname__}"
        super().__init__(f"{form}-record", "", encode, decode)

    def __repr__(self) -> str:
        cls, form = self._parts
        return f"serdes.record({cls.__qualname__}, {form!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordSerde) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return record, self._parts

    @cached_property
    def type(self) -> Type:
        """The type of the fields of the class."""
        return class_type(self._parts[0])

    @property
    def arrow_type(self) -> pa.DataType:
        return self.type.arrow

    def from_arrow(self, value: Any) -> Any:
        """Return a value of an Arrow column, which is a dict, as :meth:`serialize` accepts it."""
        return from_arrow(self.type, value)

    def arrow_value(self, value: Any) -> Any:
        """Return an object as a dict, which an Arrow column accepts."""
        import datetime

        plain = (bytes, datetime.datetime, datetime.date)
        return self._msgspec.to_builtins(value, builtin_types=plain)


def record(cls: type[T], form: str = "json") -> RecordSerde:
    """Return the serde of the objects of a class, such as a dataclass.

    Parameters
    ----------
    cls : type
        A dataclass, or another class that the library msgspec supports: ``msgspec.Struct``, attrs,
        ``TypedDict``, ``NamedTuple``. The types of the fields are checked when bytes are read.
    form : {"json", "msgpack"}
        The form of the bytes.

    Raises
    ------
    EngineUnavailableError
        msgspec is not installed.
    SpecError
        ``form`` is not valid.
    """
    check_choice("form", form, ("json", "msgpack"))
    return RecordSerde(cls, form)

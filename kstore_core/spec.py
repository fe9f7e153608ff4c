"""What a store is: a frozen, picklable description that travels and is kept with the data."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal, cast

from kstore_core import formats, serdes
from kstore_core.errors import FormatDowngradeError, SpecError
from kstore_core.formats import ValueFormat
from kstore_core.serdes import Serde

__all__ = ["SPEC_VERSION", "Shape", "StoreSpec", "StoredSpec"]

SPEC_VERSION = 2
"""Of the JSON under ``kstore.spec``. A directory with a higher one is refused.

Version 2 has time-ordered stores; whatever is none is described in version 1, as before.
"""

Shape = Literal["key_value", "versioned", "window", "session"]

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")

_TIMES = ("history_retention_ms", "retention_ms", "window_size_ms", "segment_interval_ms")
_TIMES_OF: dict[Shape, tuple[str, ...]] = {
    "key_value": (),
    "versioned": ("history_retention_ms", "segment_interval_ms"),
    "window": ("retention_ms", "window_size_ms", "segment_interval_ms"),
    "session": ("retention_ms", "segment_interval_ms"),
}
_LEAST = {"segment_interval_ms": 1}
_SAID = ("retain_duplicates", "time_ordered", "indexed")
"""What is described only where it is so."""

_FIXED = {
    "segment_interval_ms": "its rows lie in segments of the former",
    "window_size_ms": "the ends of its windows would be others",
    "retain_duplicates": "its rows were written with the former",
    "time_ordered": "its rows lie in the order of the former",
    "indexed": "its rows were written with the former",
}
"""What does not change while a store lives, and why."""


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A store's description. Make one with the factories of :mod:`kstore_core.stores`.

    Attributes
    ----------
    name : str
        Kafka's rule: 1 to 249 of ``A-Za-z0-9._-``, neither ``.`` nor ``..``.
    shape : {"key_value", "versioned", "window", "session"}
    format : ValueFormat
    key, value : Serde
    history_retention_ms : int or None
        Versioned stores: how long old versions are kept, and how late a record may come.
    segment_interval_ms : int or None
        All but key-value stores: width of a segment, at least 1.
    retention_ms : int or None
        Window and session stores: how long a window, by its start, or a session, by its end, can be
        read after stream time has passed it.
    window_size_ms : int or None
        Window stores: how long a window is; it is not stored with the rows.
    retain_duplicates : bool
        Window stores: whether a key and window may have many values.
    time_ordered : bool
        Window and session stores: whether rows lie by time first, by key second.
    indexed : bool
        Time-ordered stores: whether an index finds the rows of a key.

    Raises
    ------
    SpecError
        A bad name or serde, a shape and a format that do not go together, times out of range.
    """

    name: str
    shape: Shape
    format: ValueFormat
    key: Serde[Any] = serdes.BYTES
    value: Serde[Any] = serdes.BYTES
    history_retention_ms: int | None = None
    segment_interval_ms: int | None = None
    retention_ms: int | None = None
    window_size_ms: int | None = None
    retain_duplicates: bool = False
    time_ordered: bool = False
    indexed: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)
        if not isinstance(self.format, ValueFormat):
            raise SpecError(f"{self.format!r} is no ValueFormat of kstore_core.formats")
        _check_order(self)
        if self.family not in self.format.shapes:
            raise SpecError(
                f"the store {self.name!r} has the shape {self.family!r} and the format "
                f"{self.format.name!r}, which do not go together; see kstore_core.stores"
            )
        _check_times(self)
        for role, serde in (("key", self.key), ("value", self.value)):
            if not callable(getattr(serde, "serialize", None)) or not callable(
                getattr(serde, "deserialize", None)
            ):
                raise SpecError(
                    f"the {role} serde of store {self.name!r} is {serde!r}, which has no serialize "
                    "and deserialize; see kstore_core.serdes"
                )
            if not isinstance(getattr(serde, "name", None), str):
                raise SpecError(
                    f"the {role} serde of store {self.name!r} is {serde!r}, whose name is not a "
                    "str; it is kept with the store"
                )

    @property
    def family(self) -> str:
        """The shape, with ``"time_ordered_"`` before it where the store is: it tells which formats
        there are (:func:`kstore_core.formats.of_shape`)."""
        return _family(self)

    def describe(self) -> dict[str, Any]:
        """What is kept in the state directory, as JSON types."""
        return _described(self, self.key.name, self.value.name)


@dataclass(frozen=True, slots=True)
class StoredSpec:
    """A description as a state directory holds it: serdes are names, which may be unknown here."""

    name: str
    shape: str
    format: ValueFormat
    key: str
    value: str
    history_retention_ms: int | None = None
    segment_interval_ms: int | None = None
    retention_ms: int | None = None
    window_size_ms: int | None = None
    retain_duplicates: bool = False
    time_ordered: bool = False
    indexed: bool = False

    @classmethod
    def parse(cls, data: bytes) -> StoredSpec:
        """From the JSON under ``kstore.spec``.

        Raises
        ------
        FormatDowngradeError
            A newer kstore wrote it.
        SpecError
            It is damaged.
        """
        try:
            stored = json.loads(data)
            version = stored["version"]
            if version > SPEC_VERSION:
                raise FormatDowngradeError(
                    f"the store's description has version {version}, and this kstore reads up to "
                    f"{SPEC_VERSION}; open it with the kstore that wrote it, or a newer one"
                )
            return cls(
                name=_typed(stored, "name", str),
                shape=_typed(stored, "shape", str),
                format=formats.by_name(_typed(stored, "format", str)),
                key=_typed(stored, "key", str),
                value=_typed(stored, "value", str),
                **{name: _typed(stored, name, int, None) for name in _TIMES},
                **{name: _typed(stored, name, bool, False) for name in _SAID},
            )
        except (ValueError, KeyError, TypeError) as error:
            raise SpecError(
                f"the description stored under kstore.spec is damaged: {error}"
            ) from error

    @property
    def family(self) -> str:
        """As :attr:`StoreSpec.family`."""
        return _family(self)

    def describe(self) -> dict[str, Any]:
        """What is kept in the state directory, as JSON types."""
        return _described(self, self.key, self.value)

    def spec(self) -> StoreSpec:
        """The description with its serdes.

        Raises
        ------
        SpecError
            A serde is not one of the built-in ones.
        """
        return StoreSpec(
            self.name,
            cast("Shape", self.shape),
            self.format,
            serdes.by_name(self.key),
            serdes.by_name(self.value),
            self.history_retention_ms,
            self.segment_interval_ms,
            self.retention_ms,
            self.window_size_ms,
            self.retain_duplicates,
            self.time_ordered,
            self.indexed,
        )

    def describes(self, spec: StoreSpec) -> bool:
        """Whether ``spec`` says the same."""
        return self.describe() == spec.describe()

    def check(self, spec: StoreSpec, where: str) -> None:
        """Refuse to open this store as ``spec`` where the two cannot be reconciled.

        The format may move along an upgrade edge; retention and serdes may change.

        Raises
        ------
        SpecError
            Another shape, segment interval, window size, order or say on duplicates or the index;
            a format to which no upgrade leads.
        FormatDowngradeError
            The stored format is newer.
        """
        if self.shape != spec.shape:
            raise SpecError(
                f"{where} is a {self.shape} store and was opened as {spec.shape}; "
                "a store does not change its shape. Open it as what it is, or use another name"
            )
        for name, why in _FIXED.items():
            kept, asked = getattr(self, name), getattr(spec, name)
            if kept != asked:
                raise SpecError(
                    f"{where} has {name}={kept} and was opened with {asked}; {why}. "
                    f"Pass {name}={kept}"
                )
        if self.format == spec.format or self.format.name in spec.format.upgrades_from:
            return
        if spec.format.name not in self.format.upgrades_from:
            raise SpecError(
                f"{where} has the format {self.format.name!r} and was opened as "
                f"{spec.format.name!r}; no upgrade leads from the one to the other. Open it as "
                f"{self.format.name!r}, or put its records into a new store"
            )
        raise FormatDowngradeError(
            f"{where} has the format {self.format.name!r} and was opened as "
            f"{spec.format.name!r}; a store is not downgraded in place. Open it as "
            f"{self.format.name!r}"
        )


def _described(spec: StoreSpec | StoredSpec, key: str, value: str) -> dict[str, Any]:
    described: dict[str, Any] = {
        "version": 2 if spec.time_ordered else 1,
        "name": spec.name,
        "shape": spec.shape,
        "format": spec.format.name,
        "key": key,
        "value": value,
    }
    for name in _TIMES:
        millis = getattr(spec, name)
        if millis is not None:
            described[name] = millis
    return described | {name: True for name in _SAID if getattr(spec, name)}


def is_name(name: object) -> bool:
    """Whether Kafka's rule allows ``name`` for a store."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name)) and name not in (".", "..")


def _typed(stored: dict[str, Any], name: str, wanted: type, *default: Any) -> Any:
    if default and name not in stored:
        return default[0]
    value = stored[name]
    if type(value) is not wanted:
        raise TypeError(f"{name} is {value!r}")
    return value


def _family(spec: StoreSpec | StoredSpec) -> str:
    return f"time_ordered_{spec.shape}" if spec.time_ordered else spec.shape


def _check_order(spec: StoreSpec) -> None:
    """Refuse an order of rows that the store's shape does not have, and an index of none."""
    for name in ("time_ordered", "indexed"):
        if type(getattr(spec, name)) is not bool:
            raise SpecError(f"{name} is {getattr(spec, name)!r}; it is a bool")
    if spec.time_ordered and spec.shape not in ("window", "session"):
        raise SpecError(
            f"time_ordered is True for the {spec.shape} store {spec.name!r}; only window and "
            "session stores have rows by time"
        )
    if spec.indexed and not spec.time_ordered:
        raise SpecError(
            f"indexed is True for the store {spec.name!r}, which is not time-ordered; the rows of "
            "a key lie together without an index. Leave it out, or pass time_ordered=True"
        )


def _check_times(spec: StoreSpec) -> None:
    """Refuse times that are missing, or that the store's shape does not have."""
    times = _TIMES_OF[spec.shape]
    for name in _TIMES:
        if name in times:
            _check_millis(name, getattr(spec, name), least=_LEAST.get(name, 0))
        elif getattr(spec, name) is not None:
            raise SpecError(f"the store {spec.name!r} is a {spec.shape} store; it has no {name}")
    if type(spec.retain_duplicates) is not bool or (
        spec.retain_duplicates and spec.shape != "window"
    ):
        raise SpecError(
            f"retain_duplicates is {spec.retain_duplicates!r} for the {spec.shape} store "
            f"{spec.name!r}; it is a bool, and True for window stores only"
        )
    if spec.shape == "window" and spec.window_size_ms > spec.retention_ms:  # type: ignore[operator]
        raise SpecError(
            f"the store {spec.name!r} has retention_ms={spec.retention_ms}, which is less than "
            f"window_size_ms={spec.window_size_ms}; a window would expire before it ends"
        )


def _check_millis(name: str, millis: int | None, *, least: int) -> None:
    if type(millis) is not int:
        raise SpecError(f"{name} is int milliseconds, not {type(millis).__name__}")
    if not least <= millis < 2**63:
        raise SpecError(f"{name} is {millis}; it must be at least {least} and fit 64 bits")


def check_name(name: str) -> None:
    """Refuse a name that Kafka would refuse, or that leaves its directory.

    Raises
    ------
    SpecError
    """
    if not is_name(name):
        raise SpecError(
            f"{name!r} is not a store name: 1 to 249 of A-Z a-z 0-9 . _ -, and neither . nor .."
        )
    if name == ".kstore.lock":
        raise SpecError(f"{name!r} is not a store name: kstore locks the state directory by it")
    if ".checkpoint".startswith(name):
        raise SpecError(f"{name!r} is not a store name: Kafka Streams keeps it for its own files")

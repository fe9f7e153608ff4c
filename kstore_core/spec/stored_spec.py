"""The description that a state directory stores, and the check of a spec against it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, cast

from kstore_core import formats, serdes
from kstore_core.errors import FormatDowngradeError, SpecError
from kstore_core.formats import ValueFormat
from kstore_core.spec.describing import FLAGS, SPEC_VERSION, TIMES, Shape, described, family
from kstore_core.spec.store_spec import StoreSpec

__all__ = ["StoredSpec"]

_FIXED = {
    "segment_interval_ms": "its rows lie in segments of the former",
    "window_size_ms": "the ends of its windows would be others",
    "retain_duplicates": "its rows were written with the former",
    "time_ordered": "its rows lie in the order of the former",
    "indexed": "its rows were written with the former",
}
"""The fields that never change in a store, and the reasons."""


@dataclass(frozen=True, slots=True)
class StoredSpec:
    """A description as a state directory stores it: serdes are names, even unknown ones."""

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
        """Parse the JSON under ``kstore.spec``.

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
                    f"the stored spec has version {version}, and this kstore reads versions up to "
                    f"{SPEC_VERSION}; open the store with the kstore that wrote it, or a newer one"
                )
            return cls(
                name=_typed(stored, "name", str),
                shape=_typed(stored, "shape", str),
                format=formats.by_name(_typed(stored, "format", str)),
                key=_typed(stored, "key", str),
                value=_typed(stored, "value", str),
                **{name: _typed(stored, name, int, None) for name in TIMES},
                **{name: _typed(stored, name, bool, False) for name in FLAGS},
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise SpecError(f"the spec stored under kstore.spec is damaged: {error}") from error

    @classmethod
    def of(cls, spec: StoreSpec) -> StoredSpec:
        """Return the description that a commit of ``spec`` stores."""
        kept = {name: getattr(spec, name) for name in (*TIMES, *FLAGS)}
        return cls(spec.name, spec.shape, spec.format, spec.key.name, spec.value.name, **kept)

    @property
    def family(self) -> str:
        """As :attr:`StoreSpec.family`."""
        return family(self)

    def describe(self) -> dict[str, Any]:
        """Return the stored description of the store, as JSON types."""
        return described(self, self.key, self.value)

    def spec(self) -> StoreSpec:
        """Return the description with its serdes.

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

    def of_bytes(self) -> StoreSpec:
        """Return the description with serdes of the same names that pass bytes through."""
        known = replace(self, key="bytes", value="bytes").spec()
        key, value = (
            serdes.BuiltInSerde(name, "binary", bytes, bytes) for name in (self.key, self.value)
        )
        return replace(known, key=key, value=value)

    def describes(self, spec: StoreSpec) -> bool:
        """Return True if ``spec`` has the same description."""
        return self.describe() == spec.describe()

    def check(self, spec: StoreSpec, where: str) -> None:
        """Check that this store can be opened as ``spec``.

        Retention and serdes may differ, and the format if an upgrade leads to it.

        Raises
        ------
        SpecError
            The shape, the segment interval, the window size, the order, the duplicates or the index
            differ; or no upgrade leads to the format.
        FormatDowngradeError
            The stored format is newer.
        """
        if self.shape != spec.shape:
            raise SpecError(
                f"{where} is a {self.shape} store and was opened as a {spec.shape} store; the "
                f"shape of "
                f"a store cannot change. Open it as a {self.shape} store, or use another name"
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
                f"{spec.format.name!r}; there is no upgrade between these formats. Open it as "
                f"{self.format.name!r}, or put its records into a new store"
            )
        raise FormatDowngradeError(
            f"{where} has the format {self.format.name!r} and was opened as "
            f"{spec.format.name!r}; a store cannot be downgraded in place. Open it as "
            f"{self.format.name!r}, or write it anew in the older format: kstore migrate PATH "
            f"STORE --to {spec.format.name}"
        )


def _typed(stored: dict[str, Any], name: str, wanted: type, *default: Any) -> Any:
    if default and name not in stored:
        return default[0]
    value = stored[name]
    if type(value) is not wanted:
        raise TypeError(f"{name} has the unexpected value {value!r}")
    return value

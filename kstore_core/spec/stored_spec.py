"""The stored spec of a store, and the check of a program's spec against it."""

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
    "segment_interval_ms": "the stored rows are in segments of the stored interval",
    "window_size_ms": "another size would change the ends of the stored windows",
    "retain_duplicates": "the stored rows were written with the stored setting",
    "time_ordered": "the stored rows are sorted by the stored setting",
    "indexed": "the stored rows were written with the stored setting",
}
"""The fields that cannot change in an existing store, and the reasons."""


@dataclass(frozen=True, slots=True)
class StoredSpec:
    """A spec from a state directory. It contains the names of the serdes, not the serdes."""

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
        """Parse the JSON of the entry ``kstore.spec`` of a store.

        Raises
        ------
        FormatDowngradeError
            A newer kstore wrote the JSON.
        SpecError
            The JSON is damaged.
        """
        try:
            stored = json.loads(data)
            version = stored["version"]
            if version > SPEC_VERSION:
                raise FormatDowngradeError(
                    f"the stored spec has version {version}, but this version of kstore reads "
                    f"only specs up to version {SPEC_VERSION}. Open the store with the version "
                    "of kstore that wrote it, or with a newer version"
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
        """Return the stored form of a spec."""
        kept = {name: getattr(spec, name) for name in (*TIMES, *FLAGS)}
        return cls(spec.name, spec.shape, spec.format, spec.key.name, spec.value.name, **kept)

    @property
    def family(self) -> str:
        """The shape, with the prefix ``"time_ordered_"`` if the store is time-ordered."""
        return family(self)

    def describe(self) -> dict[str, Any]:
        """Return the description of this spec as a dict that can be written as JSON."""
        return described(self, self.key, self.value)

    def spec(self) -> StoreSpec:
        """Return a StoreSpec with the built-in serdes that have the stored names.

        Raises
        ------
        SpecError
            No built-in serde has one of the stored names.
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
        """Return a StoreSpec with serdes that have the stored names and leave bytes unchanged."""
        known = replace(self, key="bytes", value="bytes").spec()
        key, value = (
            serdes.BuiltInSerde(name, "binary", bytes, bytes) for name in (self.key, self.value)
        )
        return replace(known, key=key, value=value)

    def describes(self, spec: StoreSpec) -> bool:
        """Return True if the stored form of ``spec`` equals this spec."""
        return self.describe() == spec.describe()

    def check(self, spec: StoreSpec, where: str) -> None:
        """Raise an error if a store with this stored spec cannot be opened as ``spec``.

        The retention and the serdes may differ. The format may differ if the store can be upgraded
        from the stored format to the format of ``spec``.

        Parameters
        ----------
        spec : StoreSpec
            The spec of the program.
        where : str
            The store and its path, for error messages.

        Raises
        ------
        SpecError
            A field that cannot change differs, or the stored format cannot be upgraded to the
            format of ``spec``.
        FormatDowngradeError
            The stored format is newer than the format of ``spec``.
        """
        if self.shape != spec.shape:
            raise SpecError(
                f"{where} is a {self.shape} store, but was opened as a {spec.shape} store. The "
                f"shape of a store cannot change. Open it as a {self.shape} store, or use another "
                "name"
            )
        for name, why in _FIXED.items():
            kept, asked = getattr(self, name), getattr(spec, name)
            if kept != asked:
                raise SpecError(
                    f"{where} has {name}={kept}, but was opened with {name}={asked}. The stored "
                    f"value cannot change, because {why}. Pass {name}={kept}"
                )
        if self.format == spec.format or self.format.name in spec.format.upgrades_from:
            return
        if spec.format.name not in self.format.upgrades_from:
            raise SpecError(
                f"{where} has the format {self.format.name!r}, but was opened as "
                f"{spec.format.name!r}, and there is no upgrade between these formats. Open it as "
                f"{self.format.name!r}, or put its records into a new store"
            )
        raise FormatDowngradeError(
            f"{where} has the format {self.format.name!r}, but was opened as the older format "
            f"{spec.format.name!r}, and open() cannot downgrade a store. Open it as "
            f"{self.format.name!r}, or convert it with: kstore migrate PATH STORE --to "
            f"{spec.format.name}"
        )


def _typed(stored: dict[str, Any], name: str, wanted: type, *default: Any) -> Any:
    if default and name not in stored:
        return default[0]
    value = stored[name]
    if type(value) is not wanted:
        raise TypeError(f"{name} has the unexpected value {value!r}")
    return value

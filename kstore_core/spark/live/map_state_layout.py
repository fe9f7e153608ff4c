"""Where the state of a `map_state` lives, and whose it is: its shards in place, one writer each.

::

    <root>/live/<store>/map_state.json    what the state is; written once, and seen by every worker
    <root>/live/<store>/query             the id of the streaming query that it belongs to
    <root>/live/<store>/run-<n>           the newest batch run that was begun
    <root>/live/<store>/0_<shard>/        the state directory of a shard, as Kafka Streams names it
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from kstore_core.errors import SpecError, StateError
from kstore_core.system.directories import sync_directory

__all__ = ["MapStateHome", "Sharding"]

_DOCUMENT = "map_state.json"
_QUERY = "query"
_RUN = re.compile(r"run-([0-9]{1,19})")
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Sharding:
    """What has to stay as it is from one run to the next.

    Attributes
    ----------
    store, shape, key : str
        The store's name and shape, and the name of its key serde.
    engine : str
    partitions : int
    partition_by : str
        ``"key"`` or ``"partition"``.
    """

    store: str
    shape: str
    key: str
    engine: str
    partitions: int
    partition_by: str

    def differences(self, there: Mapping[str, object]) -> list[str]:
        """How it is not what is there, in words."""
        return [
            f"{name} is {there.get(name)!r} there and {given!r} here"
            for name, given in asdict(self).items()
            if there.get(name) != given
        ]


@dataclass(frozen=True, slots=True)
class MapStateHome:
    """The directory of one state; it travels to the workers.

    Attributes
    ----------
    path : Path
    id : str
        Tells it from every other one; empty before :meth:`bind`.
    """

    path: Path
    id: str = ""

    @classmethod
    def of(cls, root: Path, store: str) -> MapStateHome:
        """That of a store below a root."""
        return cls(root / "live" / store)

    def shard(self, number: int) -> Path:
        """The state directory of a shard."""
        return self.path / f"0_{number}"

    def partitions(self) -> int | None:
        """How many shards there are; None before the first :meth:`bind`."""
        there = self._document()
        return None if there is None else int(there["partitions"])  # type: ignore[call-overload]

    def bind(self, sharding: Sharding) -> MapStateHome:
        """Make the directory a state of these shards, or check that it is one. For the driver.

        Raises
        ------
        SpecError
            It is of other shards.
        StateError
            It is damaged, or cannot be made.
        """
        there = self._document()
        if there is None:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                document = {"format": _FORMAT, "id": uuid.uuid4().hex, **asdict(sharding)}
                _write_once(self.path / _DOCUMENT, json.dumps(document, indent=1) + "\n")
            except OSError as error:
                raise StateError(
                    f"{self.path} cannot be made or written: {error.strerror or error}. Mend its "
                    "permissions, or pass another root"
                ) from error
            there = self._document()
            assert there is not None
        differences = sharding.differences(there)
        if differences:
            raise SpecError(
                f"{self.path} holds the state of another map_state: {'; '.join(differences)}. Pass "
                "what is there, or use another root"
            )
        return MapStateHome(self.path, str(there["id"]))

    def check_seen(self) -> None:
        """Refuse a machine that does not see what the driver made. For tasks.

        Raises
        ------
        StateError
        """
        there = self._document()
        if there is None or there["id"] != self.id:
            raise StateError(
                f"{self.path} is not the directory that the driver made: this worker sees "
                f"{'none' if there is None else 'another one'}. map_state keeps its shards in "
                "place, so the root has to be a file system that all machines share"
            )

    def claim(self, query: str) -> None:
        """Make the state a streaming query's, or check that it is. For tasks.

        Raises
        ------
        StateError
            It is another query's.
        """
        place = self.path / _QUERY
        try:
            owner = place.read_text()
        except FileNotFoundError:
            _write_once(place, query)
            owner = place.read_text()
        if owner != query:
            raise StateError(
                f"{self.path} is the state of the streaming query {owner}, and this one is "
                f"{query}: two checkpoints know nothing of each other's batches. Go on from the "
                f"checkpoint of {owner} or pass another root; or, if that query is gone for good, "
                f"remove {place} to hand its state over"
            )

    def begin_run(self) -> int:
        """The number of a new batch run, greater than all before. For the driver."""
        while True:
            runs = self._runs()
            number = max(runs, default=0) + 1
            try:
                (self.path / f"run-{number}").touch(exist_ok=False)
            except FileExistsError:
                continue
            for older in runs:
                with contextlib.suppress(FileNotFoundError):
                    (self.path / f"run-{older}").unlink()
            return number

    def _runs(self) -> list[int]:
        names = [path.name for path in self.path.iterdir()]
        return [int(match[1]) for name in names if (match := _RUN.fullmatch(name))]

    def _document(self) -> dict[str, object] | None:
        place = self.path / _DOCUMENT
        try:
            document = json.loads(place.read_text(encoding="utf-8"))
            newer = document["format"] > _FORMAT
            if not newer and {"id", "partitions"} <= document.keys():
                return dict(document)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StateError(
                f"{place} does not say what the state is ({type(error).__name__}: {error}). Put it "
                "back from a copy, or pass another root"
            ) from error
        what = "is of a newer kstore; upgrade this one" if newer else "lacks entries; put it back"
        raise StateError(f"{place} {what}, or pass another root")


def _write_once(place: Path, text: str) -> None:
    """Write a file that appears whole, unless somebody else's is there already."""
    scratch = place.with_name(f".{place.name}-{uuid.uuid4().hex}.tmp")
    try:
        with scratch.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(scratch, place)
    finally:
        scratch.unlink(missing_ok=True)
    sync_directory(place.parent)

"""A virtual environment with kstore in one archive, made of what is installed here.

It is what ``venv-pack`` makes of one with the extras ``spark,rocksdb``, but for what no test needs.
"""

from __future__ import annotations

import importlib.util
import tarfile
import venv
from importlib import metadata
from pathlib import Path, PurePath

from tests.spark.support.interpreters import everything

NEEDED = ("pluggy", "rocksdict", "xxhash", "pyarrow", "numpy")
KSTORE = (
    "kstore_core",
    "kstore_lmdb",
    "kstore_memory",
    "kstore_rocksdb",
    "pyspark_kstore",
    "pyspark_kstore_kafka",
)
LEFT_OUT = {"__pycache__", "tests", "include", "src"}
NOT_LOADED = ("libarrow_flight", "libarrow_s3")


def packed_environment(scratch: Path) -> Path:
    """An archive with ``bin/python`` and its packages, to be unpacked anywhere on this machine.

    What it was made of stays beside it, as ``environment/``, and works there.
    Spark gives a ``.tar.gz`` to the command tar. A ``.tar`` it unpacks itself, and refuses the link
    from ``bin/python`` to the Python that the environment was made with.
    """
    home = scratch / "environment"
    venv.create(home, symlinks=True)
    (packages,) = home.glob("lib/python*/site-packages")
    inner = packages.relative_to(home)
    _describe(packages)
    archive = scratch / "environment.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=0) as tar:
        tar.add(home, ".")
        for name in NEEDED:
            for file in metadata.distribution(name).files or ():
                if ".." not in file.parts and LEFT_OUT.isdisjoint(file.parts) and _loaded(file):
                    tar.add(file.locate(), inner / file, recursive=False)
        for name in KSTORE:
            spec = importlib.util.find_spec(name)
            assert spec is not None
            assert spec.origin is not None
            tar.add(Path(spec.origin).parent, inner / name, filter=_code)
    (packages / "installed.pth").write_text("\n".join(everything()))
    return archive


def _describe(packages: Path) -> None:
    """Say of kstore what pip says of it, whatever it was installed from: its name, its engines."""
    kstore = metadata.distribution("kstore")
    described = packages / f"kstore-{kstore.version}.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: kstore\nVersion: {kstore.version}\n"
    )
    (described / "entry_points.txt").write_text(kstore.read_text("entry_points.txt") or "")


def _loaded(file: PurePath) -> bool:
    return not file.name.startswith(NOT_LOADED)


def _code(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if LEFT_OUT & set(Path(member.name).parts) else member

"""Build of kstore: the Cython extension modules and the engine packages under plugins/.

Everything else (metadata, dependencies, entry points, tool settings) stands in pyproject.toml.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, find_namespace_packages, find_packages, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).parent
PLUGINS = (
    *("kstore_lmdb", "kstore_memory", "kstore_rocksdb"),
    *("pyspark_kstore", "pyspark_kstore_kafka"),
)


def extension_modules() -> list[Extension]:
    """One extension per .pyx of the core and the plug-ins. An sdist contains each .pyx."""
    sources = [
        (base, source)
        for base, packages in ((HERE, ["kstore_core"]), (HERE / "plugins", PLUGINS))
        for package in packages
        for source in sorted((base / package).rglob("*.pyx"))
    ]
    return [
        Extension(
            ".".join(source.relative_to(base).with_suffix("").parts),
            [source.relative_to(HERE).as_posix()],
            include_dirs=[".", "plugins"],  # where cimport finds a .pxd
            extra_compile_args=compiler_options(),
        )
        for base, source in sources
    ]


def compiler_options() -> list[str]:
    """Optimise, and leave out the debug information that Python's own flags ask for.

    It takes a fifth of the time and most of the size. CFLAGS=-g brings it back.
    """
    if sys.platform == "win32":
        return []
    debug = any(flag.startswith("-g") for flag in os.environ.get("CFLAGS", "").split())
    return ["-O3", "-fwrapv", *([] if debug else ["-g0"])]


class BuildExtensions(build_ext):
    """build_ext on all cores, naming the package where a compiler or Python.h is missing."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if self.parallel is None:
            self.parallel = os.cpu_count()

    def run(self) -> None:
        header = Path(sysconfig.get_path("include"), "Python.h")
        if not header.exists():
            raise SystemExit(
                f"kstore: {header} is missing, so the codec cannot be compiled.\n"
                "  Debian/Ubuntu: apt-get install python3-dev    Fedora: dnf install python3-devel"
            )
        try:
            super().run()
        except Exception as error:
            if not _compiler_found():
                raise SystemExit(
                    "kstore: no C compiler was found, so the codec cannot be compiled.\n"
                    "  Debian/Ubuntu: apt-get install gcc    Fedora: dnf install gcc    "
                    "macOS: xcode-select --install\n"
                    f"  ({error})"
                ) from error
            raise


def _compiler_found() -> bool:
    import shutil

    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(command.split()[0]) is not None


setup(
    packages=[
        *find_packages(include=["kstore_core", "kstore_core.*"]),
        *PLUGINS,
        *(
            f"{plugin}.{package}"
            for plugin in PLUGINS
            for package in find_namespace_packages(f"plugins/{plugin}")
            if "__pycache__" not in package
        ),
    ],
    package_dir={plugin: f"plugins/{plugin}" for plugin in PLUGINS},
    package_data={"": ["py.typed", "*.pxd", "*.pyi"]},
    ext_modules=extension_modules(),
    cmdclass={"build_ext": BuildExtensions},
)

